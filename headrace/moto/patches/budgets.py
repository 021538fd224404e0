"""Budgets: updates, which moto lacks."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

from typing import Any


def allow_updates(module: Any) -> None:
    """Let UpdateBudget replace a budget's settings and keep its notifications."""
    from moto.budgets.models import Budget

    def update_budget(self: Any) -> str:
        account, settings = self._get_param("AccountId"), self._get_param("NewBudget")
        name = settings["BudgetName"]
        self.backend.describe_budget(account_id=account, budget_name=name)
        budgets = self.backend.budgets[account]
        budget: Any = Budget(settings, [])
        budget.notifications = budgets[name].notifications
        budgets[name] = budget
        return "{}"

    module.BudgetsResponse.update_budget = update_budget
