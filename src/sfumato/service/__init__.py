"""A service: analysts who are not trusted send questions over HTTP, and get noisy tables.

The trusted part is small: `desk.py` answers a question by tables that are open for releases alone, and pays
for it; `worker.py` runs it in processes that can be killed. Around it stands HTTP: `app.py`, tokens and logs.
"""
