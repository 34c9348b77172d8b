"""RouterArena: cached results of a model, one record per line
(`cached_results/<model>.jsonl`), and predictions of a router.
"""

from deepval.judge.tables.logs.owners.owner import Owner

CACHED = Owner(
    name="RouterArena, cached results",
    has=(frozenset({"global_index", "llm_selected", "evaluation_result"}),),
    names={
        "id": ("global_index",),
        "model": ("llm_selected",),
        "right": ("evaluation_result.score",),
        "cost": ("evaluation_result.inference_cost",),
    },
    advice="Give the files of two or more models, or their folder cached_results.",
    private=frozenset({"evaluation_result.extracted_answer"}),
)
