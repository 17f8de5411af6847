#include "base/crc32.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/text.h"
#include "harness/test.h"

TEST(base64_is_that_of_rfc_4648)
{
    static const struct {
        const char *plain, *encoded;
    } cases[] = {{"", ""},
                 {"f", "Zg=="},
                 {"fo", "Zm8="},
                 {"foo", "Zm9v"},
                 {"foob", "Zm9vYg=="},
                 {"fooba", "Zm9vYmE="},
                 {"foobar", "Zm9vYmFy"},
                 {"\xff\xfe\xfd", "//79"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char encoded[32], decoded[32];
        size_t len;
        hf__base64_encode(cases[i].plain, strlen(cases[i].plain), encoded);
        CHECK_STR(encoded, cases[i].encoded);
        CHECK(hf__base64_decode(hf__slice_str(encoded), decoded, &len));
        CHECK_SLICE(hf__slice(decoded, len), hf__slice_str(cases[i].plain));
    }
}

TEST(base64_refuses_everything_else)
{
    static const char *const bad[] = {"Z",    "Zg",   "Zg=",  "Zh==", "Zm9=",   "Zg==Zg==",
                                      "====", "Zm 8", "Zm8-", "Z===", "Zg==\n", "=Zg="};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        char decoded[32];
        size_t len;
        hf_test_note("%s", bad[i]);
        CHECK(!hf__base64_decode(hf__slice_str(bad[i]), decoded, &len));
    }
}

TEST(hex_is_lower_case)
{
    char text[9];
    hf__hex_encode("\x00\x0f\xa5\xff", 4, text);
    CHECK_STR(text, "000fa5ff");
    hf__hex_encode("", 0, text);
    CHECK_STR(text, "");
}

TEST(utf8_is_checked_strictly)
{
    static const struct {
        const char *text;
        bool valid;
    } cases[] = {
        {"plain", true},
        {"\xc3\xa9", true},
        {"\xe2\x82\xac", true},
        {"\xf0\x9f\x98\x80", true},
        {"\xed\x9f\xbf", true},
        {"\xf4\x8f\xbf\xbf", true},
        {"\x80", false},
        {"\xc0\x80", false},
        {"\xc1\xbf", false},
        {"\xe0\x80\x80", false},
        {"\xed\xa0\x80", false},
        {"\xf0\x80\x80\x80", false},
        {"\xf4\x90\x80\x80", false},
        {"\xf5\x80\x80\x80", false},
        {"\xe2\x82", false},
        {"\xc3", false},
        {"a\xff", false},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        hf_test_note("case %zu", i);
        CHECK(hf__utf8_valid(hf__slice_str(cases[i].text)) == cases[i].valid);
        for (int before = 0; before < 20; before++) { /* at every place in a word */
            char longer[64];
            snprintf(longer, sizeof longer, "%.*s%sabcdefghij", before, "0123456789012345678901",
                     cases[i].text);
            CHECK(hf__utf8_valid(hf__slice_str(longer)) == cases[i].valid);
        }
    }
}

TEST(a_plain_run_ends_where_json_needs_more_than_the_byte_itself)
{
    char text[40];
    for (int c = 0; c < 256; c++) {
        bool plain = c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
        for (size_t at = 0; at < sizeof text; at++) {
            memset(text, 'x', sizeof text);
            text[at] = (char)c;
            hf_test_note("byte %d at %zu", c, at);
            CHECK_INT((long long)hf__plain_run(text, text + sizeof text),
                      (long long)(plain ? sizeof text : at));
        }
    }
    CHECK_INT((long long)hf__plain_run(text, text), 0);
}

TEST(integers_are_parsed_whole_or_not_at_all)
{
    static const struct {
        const char *text;
        bool good;
        int64_t value;
    } cases[] = {
        {"0", true, 0},
        {"-12", true, -12},
        {"9223372036854775807", true, INT64_MAX},
        {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0},
        {"-9223372036854775809", false, 0},
        {"", false, 0},
        {"-", false, 0},
        {"1.0", false, 0},
        {" 1", false, 0},
        {"+1", false, 0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        int64_t value = 0;
        hf_test_note("%s", cases[i].text);
        CHECK(hf__parse_int64(hf__slice_str(cases[i].text), &value) == cases[i].good);
        CHECK_INT(value, cases[i].value);
    }
}

TEST(instants_are_read_as_aws_and_http_write_them)
{
    static const struct {
        const char *text;
        int64_t unix_ms;
    } good[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2026-11-15T10:20:30Z", 1794738030000},
        {"2026-11-15T10:20:30.25Z", 1794738030250},
        {"2026-11-15T12:20:30+02:00", 1794738030000},
        {"2024-02-29T23:59:60Z", 1709251199000},
        {"0001-01-01T00:00:00Z", -62135596800000},
    };
    static const char *const bad[] = {"",
                                      "2026-11-15",
                                      "2026-11-15T10:20:30",
                                      "2026-13-15T10:20:30Z",
                                      "2025-02-29T10:20:30Z",
                                      "2026-11-15T24:20:30Z",
                                      "2026-11-15T10:20:30.Z",
                                      "2026-11-15T10:20:30Zx"};
    int64_t value;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        hf_test_note("%s", good[i].text);
        CHECK(hf__parse_rfc3339(hf__slice_str(good[i].text), &value));
        CHECK_INT(value, good[i].unix_ms);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        hf_test_note("%s", bad[i]);
        CHECK(!hf__parse_rfc3339(hf__slice_str(bad[i]), &value));
    }
    CHECK(hf__parse_http_date(HF_LIT("Sun, 15 Nov 2026 10:20:30 GMT"), &value));
    CHECK_INT(value, 1794738030);
    CHECK(!hf__parse_http_date(HF_LIT("Sun, 15 Nox 2026 10:20:30 GMT"), &value));
    CHECK(!hf__parse_http_date(HF_LIT("Sunday, 15-Nov-26 10:20:30 GMT"), &value));
}

TEST(dates_and_days_are_inverse)
{
    for (int64_t day = -800000; day < 3000000; day += 37) {
        int64_t year;
        int month, of_month;
        hf__date_from_days(day, &year, &month, &of_month);
        CHECK_INT(hf__days_from_date(year, month, of_month), day);
    }
}

TEST(crc32_is_that_of_zlib)
{
    CHECK_INT(hf__crc32("123456789", 9), 0xcbf43926);
    CHECK_INT(hf__crc32("", 0), 0);
}

TEST(uuids_have_version_and_variant_and_do_not_repeat)
{
    char a[HF_UUID_SIZE], b[HF_UUID_SIZE], id[HF_ID_SIZE];
    static const unsigned char ones[16] = {255, 255, 255, 255, 255, 255, 255, 255,
                                           255, 255, 255, 255, 255, 255, 255, 255};
    hf__uuid4_from(ones, a);
    CHECK_STR(a, "ffffffff-ffff-4fff-bfff-ffffffffffff");
    hf__uuid4(a);
    hf__uuid4(b);
    CHECK(strcmp(a, b) != 0);
    CHECK(a[14] == '4' && strchr("89ab", a[19]));
    hf__random_id(id);
    CHECK_INT(strlen(id), 32);
    for (int i = 0; i < 1000; i++) {
        double unit = hf__random_unit();
        CHECK(unit >= 0 && unit < 1);
    }
}

TEST(the_keyed_hash_is_siphash)
{
    /* Of its authors: key 00 … 0f, text 00 … of this length. */
    static const struct {
        size_t len;
        uint64_t hash;
    } vectors[] = {{0, UINT64_C(0x726fdb47dd0e0e31)},
                   {1, UINT64_C(0x74f839c593dc67fd)},
                   {8, UINT64_C(0x93f5f5799a932462)},
                   {15, UINT64_C(0xa129ca6149be45e5)}};
    const uint64_t key[2] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};
    const char text[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
        CHECK(hf__hash_keyed(key, hf__slice(text, vectors[i].len)) == vectors[i].hash);
}

TEST(errors_have_names_and_messages_are_cut_whole)
{
    struct hf_error error;
    CHECK_STR(hf_error_name(HF_ERR_THROTTLED), "throttled");
    CHECK_STR(hf_error_name(0), "ok");
    CHECK_STR(hf_error_name(-9999), "unknown");
    char longer[1200];
    for (size_t i = 0; i + 2 < sizeof longer; i += 2) memcpy(longer + i, "\xc3\xa9", 3);
    CHECK_INT(hf__error_set(&error, HF_ERR_IO, "xy%s", longer), HF_ERR_IO);
    CHECK(strlen(error.message) > 500);
    CHECK(error.message[506] == '?'); /* half a character was left */
    CHECK(hf__utf8_valid(hf__slice_str(error.message)));
    hf__error_set(&error, HF_ERR_IO, "a\nb\xff");
    CHECK_STR(error.message, "a b?");
    hf__error_set(&error, HF_ERR_IO, "broken");
    hf__error_prefix(&error, "opening %s", "x");
    CHECK_STR(error.message, "opening x: broken");
    CHECK_INT(hf__error_set(NULL, HF_ERR_IO, "nobody listens"), HF_ERR_IO);
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(base64_is_that_of_rfc_4648),
        RUN(base64_refuses_everything_else),
        RUN(hex_is_lower_case),
        RUN(utf8_is_checked_strictly),
        RUN(a_plain_run_ends_where_json_needs_more_than_the_byte_itself),
        RUN(integers_are_parsed_whole_or_not_at_all),
        RUN(instants_are_read_as_aws_and_http_write_them),
        RUN(dates_and_days_are_inverse),
        RUN(crc32_is_that_of_zlib),
        RUN(uuids_have_version_and_variant_and_do_not_repeat),
        RUN(the_keyed_hash_is_siphash),
        RUN(errors_have_names_and_messages_are_cut_whole),
    };
    return RUN_TESTS(tests);
}
