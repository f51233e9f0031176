"""Forges: pull requests from GitHub and GitLab, through the user's own `gh` and `glab`. The only package that runs these."""
