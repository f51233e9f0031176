"""`imi mcp` as a server in the settings of agent programs: installed, shown, and removed byte for byte."""
