"""`make mutants`: changes the package in one place, runs the tests that belong to it, lists the changes that no test notices."""
