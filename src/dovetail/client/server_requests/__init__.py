"""Server-to-client requests: elicitation, sampling and roots. `callbacks` has the table for all revisions."""
