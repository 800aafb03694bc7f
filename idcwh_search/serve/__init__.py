"""The service of idcwh-serve: search over HTTP. The command is in cli/serve.py, the API in docs/service.md."""
