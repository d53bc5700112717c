"""The base of every config section: frozen, strict about names and numbers, documented field by
field."""

from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator


class Section(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_truth_as_number(cls, value: Any, info: ValidationInfo) -> Any:
        """`true` would be taken for 1."""
        field = cls.model_fields[info.field_name or ""]
        items = value if isinstance(value, list | tuple) else (value,)
        truths = [str(item).lower() for item in items if isinstance(item, bool)]
        if truths and _takes_numbers(field.annotation):
            raise ValueError(f"takes a number; got {truths[0]}")
        return value


def _takes_numbers(annotation: Any) -> bool:
    """Whether a setting is a number, or a list of numbers, and never a truth value."""
    inner = get_args(annotation)
    if not inner:
        return annotation in (int, float)
    return any(map(_takes_numbers, inner)) and bool not in inner
