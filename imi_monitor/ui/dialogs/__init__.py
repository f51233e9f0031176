"""The windows above the home screen: one dialog for all actions, its form, and the menu."""
