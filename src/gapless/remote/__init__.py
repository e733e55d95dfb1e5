"""Files that lie elsewhere (s3://, gs://, https:// …): listed, known by content, fetched."""
