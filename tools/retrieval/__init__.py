"""Sentence encoders, stored vectors, ranking of relations, observation of the KG, documents."""
