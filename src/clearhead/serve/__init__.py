"""The HTTP server: our own API, those of LibreTranslate and DeepL, and a page.

`app.py` puts the parts together. Requests reach the models through the services of
`clearhead.api.service` alone.
"""
