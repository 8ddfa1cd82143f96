"""The codes of every mistake that PyQL refuses, and the sentence that explains each.

Guidelines match these codes (`feedback.error == "bad_operator"`).
"""

from __future__ import annotations

CODES: dict[str, str] = {
    "answer_before_fact": "an answer is set before any fact was added",
    "bad_comparison": "these two values cannot be compared with this operator",
    "bad_date": "a date that is not YYYY, YYYY-MM, YYYY-MM-DD or does not exist",
    "bad_number": "a number is due, and something else was written",
    "bad_object": "the object is neither an entity id, a literal nor a variable",
    "bad_operator": "the operator is none of the legal ones",
    "bad_pattern": "a pattern of add_union or add_not is not made of triples",
    "bad_relation": "the relation is not the id of a relation",
    "bad_subject": "the subject is neither an entity id nor a variable",
    "bad_type": "the type is not the id of an entity",
    "bad_variable": "a variable is due, or its name is not letters, digits and underscores",
    "bare_number_node": "a bare number stands where an entity, a typed literal or a variable is due",
    "both_ends_fixed": "both ends of a fact are fixed, so that it would find nothing new",
    "count_output_not_variable": "the result of a count is not a new variable",
    "execute_before_answer": "the query is executed before set_answer or ask",
    "execute_before_fact": "the query is executed before any fact was added",
    "filter_before_fact": "a filter, count or superlative stands before any fact",
    "max_not_variable": "add_max or add_min of something that is not a variable",
    "relation_as_operator": "a relation stands where an operator is due",
    "subject_equals_object": "subject and object of a fact are the same",
    "unknown_variable": "a variable that no fact has bound",
}
