#include "wire/errors.h"

#include "holdfast.h"

/*
 * The first row of a code is the one that answers with it, and the first row of a name the one that
 * it is read as.
 */
static const struct hf_exception exceptions[] = {
    {"ConditionalCheckFailedException", HF_ERR_CONDITION, 400, false, false, false},
    {"ValidationException", HF_ERR_VALIDATION, 400, false, false, false},
    {"SerializationException", HF_ERR_SYNTAX, 400, false, false, false},
    {"UnknownOperationException", HF_ERR_INVALID, 400, false, false, false},
    {"ResourceNotFoundException", HF_ERR_NO_TABLE, 400, false, false, false},
    {"TableNotFoundException", HF_ERR_NO_TABLE, 400, false, false, false},
    {"ResourceInUseException", HF_ERR_TABLE_IN_USE, 400, false, false, false},
    {"TableInUseException", HF_ERR_TABLE_IN_USE, 400, false, false, false},
    {"ThrottlingException", HF_ERR_THROTTLED, 400, true, true, false},
    {"ProvisionedThroughputExceededException", HF_ERR_THROTTLED, 400, true, true, false},
    {"RequestLimitExceeded", HF_ERR_THROTTLED, 400, true, true, false},
    {"LimitExceededException", HF_ERR_THROTTLED, 400, true, true, false},
    {"LimitExceededException", HF_ERR_LIMIT, 400, false, false, false},
    {"ItemCollectionSizeLimitExceededException", HF_ERR_LIMIT, 400, false, false, false},
    {"TransactionCanceledException", HF_ERR_TRANSACTION, 400, false, false, false},
    {"IdempotentParameterMismatchException", HF_ERR_OTHER_REQUEST, 400, false, false, false},
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

const char *hf__exception_prefix(const struct hf_exception *exception)
{
    static const char *const of_service[] = {"SerializationException",
                                             "UnknownOperationException",
                                             "AccessDeniedException",
                                             "UnrecognizedClientException",
                                             "MissingAuthenticationTokenException",
                                             "IncompleteSignatureException",
                                             "InvalidSignatureException",
                                             "ExpiredTokenException",
                                             "ThrottlingException"};
    if (exception->code == HF_ERR_VALIDATION) return "com.amazon.coral.validate";
    for (size_t i = 0; i < sizeof of_service / sizeof of_service[0]; i++)
        if (strcmp(exception->name, of_service[i]) == 0) return "com.amazon.coral.service";
    return "com.amazonaws.dynamodb.v20120810";
}

static const struct {
    const char *name;
    int code;
} cancellations[] = {
    {"None", 0},
    {"ConditionalCheckFailed", HF_ERR_CONDITION},
    {"ValidationError", HF_ERR_VALIDATION},
    {"TransactionConflict", HF_ERR_BUSY},
    {"ThrottlingError", HF_ERR_THROTTLED},
    {"ProvisionedThroughputExceeded", HF_ERR_THROTTLED},
    {"ItemCollectionSizeLimitExceeded", HF_ERR_LIMIT},
};

enum { CANCELLATIONS = sizeof cancellations / sizeof cancellations[0] };

const char *hf__cancellation_name(int code)
{
    for (int i = 0; i < CANCELLATIONS; i++)
        if (cancellations[i].code == code) return cancellations[i].name;
    return "InternalServerError";
}

int hf__cancellation_code(struct hf_slice name)
{
    for (int i = 0; i < CANCELLATIONS; i++)
        if (hf__slice_is(name, cancellations[i].name)) return cancellations[i].code;
    return HF_ERR_STORE;
}
