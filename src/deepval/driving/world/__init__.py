"""The data of a unit: objects, the vehicle's information (Scene), and the reference for
losses (Truth).
"""
