"""SES: identities, templates and configuration sets, as moto has them: no mail leaves the machine."""

from __future__ import annotations

from typing import Any

from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Source,
    Values,
    declare_sources,
)


@declare_sources("Template")
def _template(values: Values) -> dict[str, Any]:
    """Return the template with its name; a generated one, which the physical id needs again, when it has none."""
    template: dict[str, Any] = dict(values.get("Template") or {})
    name = template.get("TemplateName") or values.id or values.context.generate_name(64)
    values.properties["Template"] = {**template, "TemplateName": name}
    return values.properties["Template"]


@declare_sources("Name")
def _set(values: Values) -> dict[str, Any]:
    return {"Name": values.get("Name")}


def _is_address(values: Values) -> bool:
    return "@" in str(values.get("EmailIdentity"))


def _is_domain(values: Values) -> bool:
    return not _is_address(values)


def _is_known(values: Values) -> bool:
    identities = values.context.call("ses", "ListIdentities", {})["Identities"]
    return values.get("EmailIdentity") in identities


def _dkim(number: int, form: str) -> Source:
    """Return the source of a part of a domain's DKIM record; an address has none."""

    def find(values: Values) -> str | None:
        if "@" in values.id:
            return None
        answer = values.context.call("ses", "VerifyDomainDkim", {"Domain": values.id})
        return form.format(token=answer["DkimTokens"][number], identity=values.id)

    return find


DECLARED = [
    DeclaredType(
        "AWS::SES::EmailIdentity",
        "ses",
        create=[
            Call("VerifyEmailIdentity", {"EmailAddress": "EmailIdentity"}, only_if=_is_address),
            Call("VerifyDomainIdentity", {"Domain": "EmailIdentity"}, only_if=_is_domain),
        ],
        id="EmailIdentity",
        name="EmailIdentity",
        exists=_is_known,
        delete=[Call("DeleteIdentity", {"Identity": "@id"})],
        attributes={
            f"DkimDNSToken{part}{number}": _dkim(number - 1, form)
            for part, form in (
                ("Name", "{token}._domainkey.{identity}"),
                ("Value", "{token}.dkim.amazonses.com"),
            )
            for number in (1, 2, 3)
        },
    ),
    DeclaredType(
        "AWS::SES::Template",
        "ses",
        create=[Call("CreateTemplate", {"Template": _template}, only=())],
        id="Template.TemplateName",
        read=Call("GetTemplate", {"TemplateName": "@id"}),
        update=[Call("UpdateTemplate", {"Template": _template}, only=())],
        delete=[Call("DeleteTemplate", {"TemplateName": "@id"})],
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::SES::ConfigurationSet",
        "ses",
        create=[Call("CreateConfigurationSet", {"ConfigurationSet": _set}, only=())],
        id="Name",
        name="Name",
        read=Call("DescribeConfigurationSet", {"ConfigurationSetName": "@id"}),
        delete=[Call("DeleteConfigurationSet", {"ConfigurationSetName": "@id"})],
    ),
    DeclaredType(
        "AWS::SES::ReceiptRuleSet",
        "ses",
        create=[Call("CreateReceiptRuleSet")],
        id="RuleSetName",
        delete=[Call("DeleteReceiptRuleSet", {"RuleSetName": "@id"})],
        name="RuleSetName",
    ),
    DeclaredType(
        "AWS::SES::ContactList",
        "sesv2",
        create=[Call("CreateContactList")],
        id="ContactListName",
        read=Call("GetContactList", {"ContactListName": "@id"}),
        delete=[Call("DeleteContactList", {"ContactListName": "@id"})],
        name="ContactListName",
    ),
]
