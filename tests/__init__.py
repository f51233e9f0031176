"""The test suite; its folders mirror imi_monitor/."""
