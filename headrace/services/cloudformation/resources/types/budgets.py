"""Budgets, as stored settings: nothing here costs anything, and nobody is told."""

from __future__ import annotations

from typing import Any

from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Source,
    Values,
    declare_sources,
)


@declare_sources("Budget")
def _name_budget(values: Values) -> dict[str, Any]:
    """Return the budget with its name; a generated one, which the physical id needs again, when it has none."""
    budget = values.get("Budget")
    name = budget.get("BudgetName") or values.context.generate_name(100)
    values.properties["Budget"] = {**budget, "BudgetName": name}
    return values.properties["Budget"]


_ACCOUNT: dict[str, Source] = {"AccountId": lambda v: v.context.account}

DECLARED = [
    DeclaredType(
        "AWS::Budgets::Budget",
        "budgets",
        create=[Call("CreateBudget", {**_ACCOUNT, "Budget": _name_budget})],
        id="Budget.BudgetName",
        read=Call("DescribeBudget", {**_ACCOUNT, "BudgetName": "@id"}),
        update=[
            Call(
                "UpdateBudget",
                {
                    **_ACCOUNT,
                    "NewBudget": declare_sources("Budget")(
                        lambda v: {**v.get("Budget"), "BudgetName": v.id}
                    ),
                },
            )
        ],
        delete=[Call("DeleteBudget", {**_ACCOUNT, "BudgetName": "@id"})],
        attributes={"Id": "@id"},
    )
]
