"""Lane maps, routes and observed agents -> plans of published planners: IDM and
PDM-Closed, in our own code.
"""
