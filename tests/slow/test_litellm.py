"""A table as the configuration of a LiteLLM proxy, loaded by LiteLLM itself."""

import pytest

import deepval

# What LiteLLM's own libraries warn of when they are imported is not ours.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def test_litellm_loads_the_configuration(monkeypatch):
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # and reads no network
    litellm = pytest.importorskip("litellm")
    yaml = pytest.importorskip("yaml")
    groups = {"code": {"openai/gpt-4": 1.0}, "chat: a": {"openai/gpt-4": 0.25}}
    groups["chat: a"]["openai/gpt-4o-mini"] = 0.75
    modes = ("openai/gpt-4o-mini", "openai/gpt-4")
    default = {"openai/gpt-4": 1.0}
    table = deepval.TableRouter("task", modes, groups, default)
    content = yaml.safe_load(table.to_litellm())
    router = litellm.Router(
        model_list=content["model_list"], **content["router_settings"]
    )
    assert set(router.get_model_names()) == {"code", "chat: a", "default"}
    weights = [
        one["litellm_params"].get("weight")
        for one in content["model_list"]
        if one["model_name"] == "chat: a"
    ]
    assert weights == [0.25, 0.75]
