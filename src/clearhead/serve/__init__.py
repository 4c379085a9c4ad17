"""HTTP ⇄ tasks: one server with known APIs, and the page where people use models and see into them.

Read `pool.py` for how requests are decoded together, `models.py` for the runs that are served,
`door.py` for what is refused before anything is read, `work.py` for what requests share and their way
through threads, `own.py`, `libretranslate.py`, `openai.py` and `tei.py` for the APIs, `app.py` and
`server.py` for the whole.
"""
