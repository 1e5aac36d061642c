"""The permissions that requests to a queue take, in words for an error."""

PROCESSOR = "the SAS letter 'p' or the role 'Storage Queue Data Message Processor'"
CONTRIBUTOR = "the SAS letter 'u' or the role 'Storage Queue Data Contributor'"
SENDER = "the SAS letter 'a' or the role 'Storage Queue Data Message Sender'"
READER = "the SAS letter 'r' or the role 'Storage Queue Data Reader'"
CREATOR = (
    "a key, an account SAS (srt with 'c') with the letter 'c', or the role 'Storage Queue Data"
    " Contributor'; a SAS for one queue can never create it"
)
LISTER = (
    "a key, an account SAS for the service (srt with 's') with the letter 'l', or the role 'Storage"
    " Queue Data Reader' for the account; or name each queue"
)
