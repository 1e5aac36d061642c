"""Azure's SDK for blobs and the control plane, over libcurl: one deadline, no redirects."""
