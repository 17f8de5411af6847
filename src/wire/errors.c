#include "wire/errors.h"

#include "holdfast.h"

/* The first row of a code is the one that answers with it. */
static const struct hf_exception exceptions[] = {
    {"ConditionalCheckFailedException", HF_ERR_CONDITION, 400, false, false, false},
    {"ValidationException", HF_ERR_VALIDATION, 400, false, false, false},
    {"SerializationException", HF_ERR_SYNTAX, 400, false, false, false},
    {"UnknownOperationException", HF_ERR_INVALID, 400, false, false, false},
    {"ItemCollectionSizeLimitExceededException", HF_ERR_LIMIT, 400, false, false, false},
    {"ResourceNotFoundException", HF_ERR_NO_TABLE, 400, false, false, false},
    {"TableNotFoundException", HF_ERR_NO_TABLE, 400, false, false, false},
    {"ResourceInUseException", HF_ERR_TABLE_IN_USE, 400, false, false, false},
    {"TableInUseException", HF_ERR_TABLE_IN_USE, 400, false, false, false},
    {"ThrottlingException", HF_ERR_THROTTLED, 400, true, true, false},
    {"ProvisionedThroughputExceededException", HF_ERR_THROTTLED, 400, true, true, false},
    {"RequestLimitExceeded", HF_ERR_THROTTLED, 400, true, true, false},
    {"LimitExceededException", HF_ERR_THROTTLED, 400, true, true, false},
    {"TooManyRequestsException", HF_ERR_THROTTLED, 400, true, true, false},
    {"AccessDeniedException", HF_ERR_DENIED, 400, false, false, false},
    {"UnrecognizedClientException", HF_ERR_DENIED, 400, false, false, false},
    {"MissingAuthenticationTokenException", HF_ERR_DENIED, 400, false, false, false},
    {"IncompleteSignatureException", HF_ERR_DENIED, 400, false, false, false},
    {"ExpiredTokenException", HF_ERR_DENIED, 400, false, false, false},
    {"InvalidSignatureException", HF_ERR_DENIED, 400, false, false, true},
    {"SignatureDoesNotMatch", HF_ERR_DENIED, 403, false, false, true},
    {"RequestExpired", HF_ERR_DENIED, 400, false, false, true},
    {"RequestTimeTooSkewed", HF_ERR_DENIED, 403, false, false, true},
    {"RequestInTheFuture", HF_ERR_DENIED, 403, false, false, true},
    {"InternalServerError", HF_ERR_STORE, 500, true, false, false},
    {"InternalFailure", HF_ERR_STORE, 500, true, false, false},
    {"ServiceUnavailable", HF_ERR_STORE, 503, true, false, false},
    {"ServiceUnavailableException", HF_ERR_STORE, 503, true, false, false},
    {"TransactionInProgressException", HF_ERR_STORE, 400, true, false, false},
    {"ReplicatedWriteConflictException", HF_ERR_STORE, 400, true, false, false},
    {"RequestTimeout", HF_ERR_STORE, 400, true, false, false},
    {"RequestTimeoutException", HF_ERR_STORE, 400, true, false, false},
};

enum { COUNT = sizeof exceptions / sizeof exceptions[0] };

const struct hf_exception *hf__exception_find(struct hf_slice name)
{
    for (int i = 0; i < COUNT; i++)
        if (hf__slice_is(name, exceptions[i].name)) return &exceptions[i];
    return NULL;
}

const struct hf_exception *hf__exception_for(int code)
{
    const struct hf_exception *internal = NULL;
    for (int i = 0; i < COUNT; i++) {
        if (exceptions[i].code == code) return &exceptions[i];
        if (!internal && exceptions[i].status == 500) internal = &exceptions[i];
    }
    return internal;
}
