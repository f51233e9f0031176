"""Runs: the agents that imi starts. Providers know the programs, ways hold the processes; nothing here has to live for an
agent to go on.

    start ─▶ queue (registry) ─▶ launcher ─▶ way ─▶ keeper ─▶ agent ─▶ output file ─▶ follower ─▶ registry
    answer, say, interrupt ─▶ provider (message) ─▶ input pipe ─▶ agent
"""
