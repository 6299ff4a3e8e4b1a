"""Whether a camera's account of its pairs adds up."""

from __future__ import annotations

from daemon.threads.accounts import Account


def balanced(account: Account) -> bool:
    """True where nothing is lost and nothing counted twice."""
    settled = account.published.total() + account.suppressed.total() + account.dropped.total()
    return account.waiting >= 0 and account.proposed == account.waiting + settled
