"""`AWS::Serverless-2016-10-31`: AWS's own aws-sam-translator converts SAM's resources to CloudFormation's."""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from headrace.core.extras import install_command
from headrace.services.cloudformation.errors import TemplateError, TransformFailed
from headrace.services.cloudformation.transforms.context import TransformContext

NAME = "AWS::Serverless-2016-10-31"
# The translator stores the region in a class attribute.
_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Session:
    """A stand-in for a boto3 session, with the one member that the translator reads."""

    region_name: str


def expand(document: dict[str, Any], context: TransformContext) -> dict[str, Any]:
    """Return a template without SAM's resources. Raises TemplateError, with the translator's sentences."""
    try:
        # The import takes half a second; only stacks that use SAM pay for it.
        from samtranslator.model.exceptions import InvalidDocumentException
        from samtranslator.parser.parser import Parser
        from samtranslator.translator.translator import Translator
        from samtranslator.utils import py27hash_fix
    except ModuleNotFoundError as error:
        raise TemplateError(
            f"Transform {NAME} needs AWS's translator, which is not installed: {install_command('sam')}"
        ) from error

    values = dict(context.parameters)
    session: Any = _Session(context.region)
    with _LOCK:
        translator = Translator(None, Parser(), boto_session=session)
        try:
            py27hash_fix.to_py27_compatible_template(document, values)
            translated = translator.translate(
                document, parameter_values=values, get_managed_policy_map=context.policies
            )
        except InvalidDocumentException as error:
            causes = [str(cause.message) for cause in error.causes]
            shown = " ".join([str(error.message), *causes])
            raise TransformFailed(f"Transform {NAME} failed with: {shown}") from error
        finally:
            translator.metrics.publish()  # nobody receives the log
    return py27hash_fix.undo_mark_unicode_str_in_template(translated)
