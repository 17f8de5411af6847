/* AWS credentials: every provider against a stand-in of its real endpoint. */
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "harness/stub.h"
#include "store/endpoint.h"
#include "store/key_ring.h"
#include "store/providers.h"
#include "store/subprocess.h"

/* ---- a world with an environment, files and a server ---- */

enum { MAX_PAIRS = 24 };

static struct {
    const char *environment[2 * MAX_PAIRS + 2];
    int pairs;
    struct hf_arena texts;
    struct hf_stub *stub;
} world;

static const char *keep(const char *text)
{
    return hf__arena_str(&world.texts, hf__slice_str(text));
}

static void set(const char *name, const char *value)
{
    world.environment[2 * world.pairs] = name;
    world.environment[2 * world.pairs + 1] = keep(value);
    world.pairs++;
}

/* Writes a file below the test's directory; returns its path. */
static const char *write_file(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", hf_test_directory(), name);
    for (char *slash = path + strlen(hf_test_directory()) + 1; (slash = strchr(slash, '/'));
         slash++) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fputs(text, file);
    fclose(file);
    return keep(path);
}

static void begin(hf_stub_fn server, void *user)
{
    world.pairs = 0;
    memset(world.environment, 0, sizeof world.environment);
    world.texts = (struct hf_arena){0};
    world.stub = server ? hf_stub_start(server, user, false) : NULL;
    set("AWS_EC2_METADATA_DISABLED", "true"); /* no test asks the real address */
    set("HOME", hf_test_directory());
    set("AWS_CONFIG_FILE", "/nonexistent");
    set("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent");
}

static void end(void)
{
    if (world.stub) hf_stub_stop(world.stub);
    hf__arena_free(&world.texts);
}

static void use_config(const char *text)
{
    set("AWS_CONFIG_FILE", write_file("config", text));
}

static int resolve_into(struct hf_credentials **ret, struct hf_error *reterr)
{
    struct hf_arena arena = {0};
    struct hf_provider_context context = {.arena = &arena,
                                          .environment = world.environment,
                                          .clock = &hf__clock_system,
                                          .region = "eu-west-1"};
    int code = hf__profiles_load(&arena, world.environment, NULL, &context.profiles, reterr);
    if (code == 0) code = hf__providers_resolve(&context, ret, reterr);
    hf__arena_free(&arena);
    return code;
}

static void expect(const char *provider, const char *id, const char *token)
{
    struct hf_credentials *c = NULL;
    struct hf_error error = {0};
    if (resolve_into(&c, &error) != 0) hf_test_fail(__FILE__, __LINE__, "%s", error.message);
    CHECK_STR(c->provider, provider);
    CHECK_STR(c->access_key_id, id);
    CHECK_STR(c->secret, "s3cr3t");
    CHECK_STR(c->token ? c->token : "", token);
    hf__credentials_unref(c);
}

static void expect_failure(const char *part)
{
    struct hf_credentials *c = NULL;
    struct hf_error error = {0};
    CHECK_INT(resolve_into(&c, &error), HF_ERR_CREDENTIALS);
    if (!strstr(error.message, part))
        hf_test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", error.message, part);
}

/* ---- without a server ---- */

TEST(the_environment_comes_first)
{
    begin(NULL, NULL);
    use_config("[default]\naws_access_key_id = FROMFILE\naws_secret_access_key = s3cr3t\n");
    expect("profile", "FROMFILE", "");
    set("AWS_ACCESS_KEY_ID", "AKID");
    expect_failure("AWS_SECRET_ACCESS_KEY is not");
    set("AWS_SECRET_ACCESS_KEY", "s3cr3t");
    expect("environment", "AKID", "");
    set("AWS_SESSION_TOKEN", "tok");
    expect("environment", "AKID", "tok");
    end();
}

TEST(profiles_are_found_by_name_in_both_files)
{
    begin(NULL, NULL);
    use_config(
        "# a comment\n[default]\nregion = us-west-2\n[profile dev]\naws_access_key_id = CONFIG\n"
        "aws_secret_access_key = other\ns3 =\n  max_concurrent_requests = 20\n[profile  two]\nregion=x\n");
    set("AWS_SHARED_CREDENTIALS_FILE",
        write_file(
            "credentials",
            "[dev]\naws_access_key_id=CREDS\naws_secret_access_key=s3cr3t\naws_session_token=t\n"));
    expect_failure("no AWS credentials found");
    set("AWS_PROFILE", "dev");
    expect("profile", "CREDS", "t");
    set("AWS_PROFILE", "missing");
    expect_failure("profile missing is neither in");
    end();
}

TEST(a_profile_named_in_the_url_wins_over_the_environment)
{
    struct hf_arena arena = {0};
    struct hf_credentials *c = NULL;
    struct hf_error error;
    begin(NULL, NULL);
    set("AWS_ACCESS_KEY_ID", "AMBIENT");
    set("AWS_SECRET_ACCESS_KEY", "s");
    use_config("[profile prod]\naws_access_key_id = PROD\naws_secret_access_key = s\n");
    struct hf_provider_context context = {
        .arena = &arena, .environment = world.environment, .clock = &hf__clock_system};
    CHECK_INT(hf__profiles_load(&arena, world.environment, "prod", &context.profiles, &error), 0);
    CHECK_INT(hf__providers_resolve(&context, &c, &error), 0);
    CHECK_STR(c->access_key_id, "PROD");
    hf__credentials_unref(c);
    hf__arena_free(&arena);
    end();
}

TEST(damaged_files_are_named_with_their_line)
{
    struct hf_arena arena = {0};
    struct hf_profiles profiles;
    struct hf_error error;
    begin(NULL, NULL);
    use_config("[default]\nregion = x\nnonsense\n");
    CHECK_INT(hf__profiles_load(&arena, world.environment, NULL, &profiles, &error), HF_ERR_SYNTAX);
    CHECK(strstr(error.message, "line 3: expected key = value") != NULL);
    use_config("[default\n");
    CHECK_INT(hf__profiles_load(&arena, world.environment, NULL, &profiles, &error), HF_ERR_SYNTAX);
    use_config("region = x\n");
    CHECK_INT(hf__profiles_load(&arena, world.environment, NULL, &profiles, &error), HF_ERR_SYNTAX);
    hf__arena_free(&arena);
    end();
}

TEST(credentials_that_cannot_be_sent_are_refused)
{
    begin(NULL, NULL);
    set("AWS_ACCESS_KEY_ID", "AK\r\nX-Evil: 1");
    set("AWS_SECRET_ACCESS_KEY", "s3cr3t");
    expect_failure("cannot be sent");
    end();
}

TEST(nothing_configured_says_what_to_do)
{
    begin(NULL, NULL);
    expect_failure("set AWS_ACCESS_KEY_ID");
    end();
}

/* ---- credential_process ---- */

static void use_process(const char *script)
{
    char config[1024];
    const char *path = write_file("process.sh", script);
    snprintf(config, sizeof config, "[default]\ncredential_process = sh \"%s\" 'an argument'\n",
             path);
    use_config(config);
}

TEST(a_process_gives_credentials)
{
    begin(NULL, NULL);
    use_process(
        "[ \"$1\" = 'an argument' ] || exit 9\n"
        "echo '{\"Version\":1,\"AccessKeyId\":\"PROC\",\"SecretAccessKey\":\"s3cr3t\",\"SessionToken\":\"pt\","
        "\"Expiration\":\"2099-01-01T00:00:00Z\"}'\n");
    expect("credential_process", "PROC", "pt");
    use_process("echo nonsense\n");
    expect_failure("cannot be read");
    use_process("echo '{\"Version\":2,\"AccessKeyId\":\"P\",\"SecretAccessKey\":\"s\"}'\n");
    expect_failure("\"Version\": 1");
    use_process("echo 'please log in first' >&2; exit 3\n");
    expect_failure("ended with status 3: please log in first");
    use_config("[default]\ncredential_process = /nonexistent/program\n");
    expect_failure("cannot run /nonexistent/program");
    use_config("[default]\ncredential_process = sh 'unbalanced\n");
    expect_failure("cannot be split");
    end();
}

TEST(a_process_that_hangs_or_floods_is_stopped)
{
    struct hf_arena arena = {0};
    struct hf_slice output;
    struct hf_error error;
    char **sleeper = hf__split_command(&arena, "sleep 60");
    char **flood = hf__split_command(&arena, "sh -c 'yes | head -c 100000'");
    CHECK_INT(hf__subprocess_run(&arena, sleeper, 100, NULL, 1000, &output, &error),
              HF_ERR_CREDENTIALS);
    CHECK(strstr(error.message, "did not end within") != NULL);
    bool stop = true;
    CHECK_INT(hf__subprocess_run(&arena, sleeper, 60000, &stop, 1000, &output, &error),
              HF_ERR_CREDENTIALS);
    CHECK_INT(hf__subprocess_run(&arena, flood, 10000, NULL, 1000, &output, &error),
              HF_ERR_CREDENTIALS);
    hf__arena_free(&arena);
}

/* ---- container ---- */

static void container_server(void *user, const struct hf_stub_request *request,
                             struct hf_stub_answer *answer)
{
    (void)user;
    bool good = strcmp(request->target, "/creds") == 0 && strcmp(request->method, "GET") == 0 &&
                strcmp(hf_stub_header(request, "authorization"), "Bearer x") == 0;
    answer->status = good ? 200 : 403;
    strcpy(
        answer->body,
        "{\"AccessKeyId\":\"CONT\",\"SecretAccessKey\":\"s3cr3t\",\"Token\":\"ct\",\"Expiration\":"
        "\"2099-01-01T00:00:00Z\",\"RoleArn\":null}");
}

TEST(a_container_gets_credentials_from_its_host)
{
    char url[128];
    begin(container_server, NULL);
    snprintf(url, sizeof url, "%s/creds", hf_stub_url(world.stub));
    set("AWS_CONTAINER_CREDENTIALS_FULL_URI", url);
    expect_failure("answered with status 403");
    set("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Bearer x");
    expect("container", "CONT", "ct");
    set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", write_file("token", "Bearer wrong"));
    expect_failure("answered with status 403"); /* the file wins, and is read anew */
    write_file("token", "Bearer x");
    expect("container", "CONT", "ct");
    write_file("token", "Bearer x\r\nX-Evil: 1");
    expect_failure("contains a line break");
    end();
}

TEST(a_container_does_not_ask_strangers_in_the_clear)
{
    begin(NULL, NULL);
    set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://192.0.2.1/creds");
    expect_failure("must be https");
    set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1.evil.invalid/creds");
    expect_failure("must be https");
    set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "gopher://x");
    expect_failure("is not an http or https URL");
    end();
}

/* ---- EC2 instance metadata ---- */

static void imds_server(void *user, const struct hf_stub_request *request,
                        struct hf_stub_answer *answer)
{
    const char *role = user;
    bool has_token = strcmp(hf_stub_header(request, "x-aws-ec2-metadata-token"), "T0KEN") == 0;
    if (strcmp(request->target, "/latest/api/token") == 0) {
        bool good =
            strcmp(request->method, "PUT") == 0 &&
            strcmp(hf_stub_header(request, "x-aws-ec2-metadata-token-ttl-seconds"), "21600") == 0;
        answer->status = good ? 200 : 400;
        strcpy(answer->body, "T0KEN");
    } else if (!has_token) {
        answer->status = 401;
    } else if (strcmp(request->target, "/latest/meta-data/iam/security-credentials/") == 0) {
        snprintf(answer->body, 100, "%s\n", role);
    } else if (strcmp(request->target, "/latest/meta-data/iam/security-credentials/my-role") == 0) {
        strcpy(
            answer->body,
            "{\"Code\":\"Success\",\"AccessKeyId\":\"IMDS\",\"SecretAccessKey\":\"s3cr3t\",\"Token\":"
            "\"it\",\"Expiration\":\"2099-01-01T00:00:00Z\"}");
    } else if (strcmp(request->target, "/latest/meta-data/placement/region") == 0) {
        strcpy(answer->body, "ap-south-1");
    } else {
        answer->status = 404;
    }
}

TEST(an_instance_gets_credentials_and_region_from_its_metadata)
{
    struct hf_arena arena = {0};
    struct hf_error error;
    const char *region;
    static char role[] = "my-role";
    begin(imds_server, role);
    set("AWS_EC2_METADATA_DISABLED", "false");
    set("AWS_EC2_METADATA_SERVICE_ENDPOINT", hf_stub_url(world.stub));
    expect("imds", "IMDS", "it");
    struct hf_provider_context context = {
        .arena = &arena, .environment = world.environment, .clock = &hf__clock_system};
    CHECK_INT(hf__imds_region(&context, &region, &error), 0);
    CHECK_STR(region, "ap-south-1");
    set("AWS_EC2_METADATA_DISABLED", "TRUE");
    expect_failure("no AWS credentials found");
    CHECK_INT(hf__imds_region(&context, &region, &error), HF_ERR_CREDENTIALS);
    CHECK(strstr(error.message, "set AWS_REGION") != NULL);
    hf__arena_free(&arena);
    end();
}

TEST(an_instance_without_a_role_says_so)
{
    static char none[] = "";
    begin(imds_server, none);
    set("AWS_EC2_METADATA_DISABLED", "false");
    set("AWS_EC2_METADATA_SERVICE_ENDPOINT", hf_stub_url(world.stub));
    expect_failure("no role attached");
    end();
}

/* ---- STS ---- */

#define STS_ANSWER(id)                                                                                        \
    "<AssumeRoleResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleResult><Credentials>" \
    "<AccessKeyId>" id                                                                                        \
    "</AccessKeyId><SecretAccessKey>s3cr3t</SecretAccessKey><SessionToken>a&amp;b</SessionToken>"             \
    "<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"

static char sts_body[4096];
static char sts_authorization[1024];

static void sts_server(void *user, const struct hf_stub_request *request,
                       struct hf_stub_answer *answer)
{
    (void)user;
    snprintf(sts_body, sizeof sts_body, "%.*s", HF_FMT(request->body));
    snprintf(sts_authorization, sizeof sts_authorization, "%s",
             hf_stub_header(request, "authorization"));
    if (strstr(sts_body, "denied")) {
        answer->status = 403;
        strcpy(
            answer->body,
            "<ErrorResponse><Error><Code>AccessDenied</Code><Message>you may not</Message></Error>"
            "</ErrorResponse>");
        return;
    }
    strcpy(answer->body,
           strstr(sts_body, "AssumeRoleWithWebIdentity") ? STS_ANSWER("WEB") : STS_ANSWER("ROLE"));
}

TEST(a_web_identity_is_exchanged_for_a_role)
{
    begin(sts_server, NULL);
    set("AWS_ENDPOINT_URL_STS", hf_stub_url(world.stub));
    set("AWS_WEB_IDENTITY_TOKEN_FILE", write_file("jwt", "header.payload+/=\n"));
    expect_failure("AWS_ROLE_ARN is not");
    set("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/x");
    set("AWS_ROLE_SESSION_NAME", "me");
    expect("web-identity", "WEB", "a&b");
    CHECK_STR(
        sts_body,
        "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012"
        "%3Arole%2Fx&RoleSessionName=me&WebIdentityToken=header.payload%2B%2F%3D");
    CHECK_STR(sts_authorization, "");
    set("AWS_ROLE_ARN", "denied");
    expect_failure("status 403: you may not");
    set("AWS_WEB_IDENTITY_TOKEN_FILE", "/nonexistent");
    expect_failure("cannot read /nonexistent");
    end();
}

TEST(a_profile_assumes_its_role_with_another_profiles_keys)
{
    begin(sts_server, NULL);
    set("AWS_ENDPOINT_URL_STS", hf_stub_url(world.stub));
    use_config(
        "[default]\nrole_arn = arn:role\nsource_profile = base\nexternal_id = ext 1\nrole_session_name = n\n"
        "[profile base]\naws_access_key_id = BASE\naws_secret_access_key = basesecret\n");
    expect("assume-role", "ROLE", "a&b");
    CHECK_STR(
        sts_body,
        "Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Arole&RoleSessionName=n&ExternalId=ext%201");
    CHECK(strstr(sts_authorization, "Credential=BASE/") != NULL);
    CHECK(strstr(sts_authorization, "/eu-west-1/sts/aws4_request") != NULL);
    end();
}

TEST(roles_can_be_chained_and_circles_are_refused)
{
    begin(sts_server, NULL);
    set("AWS_ENDPOINT_URL_STS", hf_stub_url(world.stub));
    use_config(
        "[default]\nrole_arn = arn:outer\nsource_profile = middle\n[profile middle]\nrole_arn = arn:inner\n"
        "source_profile = base\n[profile base]\naws_access_key_id = BASE\naws_secret_access_key = b\n");
    expect("assume-role", "ROLE", "a&b");
    CHECK(strstr(sts_authorization, "Credential=ROLE/") != NULL);
    CHECK_INT(hf_stub_requests(world.stub), 2);
    use_config(
        "[default]\nrole_arn = arn:a\nsource_profile = b\n[profile b]\nrole_arn = arn:b\nsource_profile = default\n");
    expect_failure("refers to itself in a cycle");
    use_config("[default]\nrole_arn = arn:a\n");
    expect_failure("needs one of source_profile");
    use_config(
        "[default]\nrole_arn = arn:a\nsource_profile = empty\n[profile empty]\nregion = x\n");
    expect_failure("source_profile empty has no credentials");
    end();
}

TEST(a_role_can_start_from_the_environment_or_a_token_file)
{
    begin(sts_server, NULL);
    set("AWS_ENDPOINT_URL_STS", hf_stub_url(world.stub));
    set("AWS_PROFILE", "p");
    char config[600];
    snprintf(config, sizeof config, "[profile p]\nrole_arn = arn:a\nweb_identity_token_file = %s\n",
             write_file("jwt", "token"));
    use_config(config);
    expect("web-identity", "WEB", "a&b");
    use_config("[profile p]\nrole_arn = arn:a\ncredential_source = Nowhere\n");
    expect_failure("is not a credential_source");
    use_config("[profile p]\nrole_arn = arn:a\ncredential_source = EcsContainer\n");
    expect_failure("credential_source EcsContainer has no credentials");
    end();
}

TEST(an_answer_of_sts_without_credentials_is_refused)
{
    static const char *const bad[] = {
        "", "<x>", "<AccessKeyId>A</AccessKeyId>",
        ("<AccessKeyId>A</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
         "<SessionToken>t</SessionToken><Expiration>tomorrow</Expiration>")};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct hf_credentials *c = NULL;
        struct hf_error error;
        CHECK_INT(hf__credentials_from_sts("sts", hf__slice_str(bad[i]), &c, &error),
                  HF_ERR_CREDENTIALS);
    }
}

/* ---- SSO ---- */

static void sso_server(void *user, const struct hf_stub_request *request,
                       struct hf_stub_answer *answer)
{
    (void)user;
    bool good =
        strcmp(request->target,
               "/federation/credentials?role_name=Admin%20Role&account_id=123456789012") == 0 &&
        strcmp(hf_stub_header(request, "x-amz-sso_bearer_token"), "ssotoken") == 0;
    answer->status = good ? 200 : 401;
    strcpy(
        answer->body,
        "{\"roleCredentials\":{\"accessKeyId\":\"SSO\",\"secretAccessKey\":\"s3cr3t\",\"sessionToken\":"
        "\"st\",\"expiration\":4070908800000}}");
}

TEST(sso_uses_the_token_that_login_left)
{
    begin(sso_server, NULL);
    set("AWS_ENDPOINT_URL_SSO", hf_stub_url(world.stub));
    use_config(
        "[default]\nsso_session = corp\nsso_account_id = 123456789012\nsso_role_name = Admin Role\n"
        "[sso-session corp]\nsso_region = eu-north-1\nsso_start_url = https://corp.invalid/start\n");
    expect_failure("run: aws sso login");
    static const char name[] =
        ".aws/sso/cache/ee0bfd2552fbd840c02cc48b6e823320543c450f.json"; /* sha1("corp") */
    write_file(name, "{\"accessToken\":\"ssotoken\",\"expiresAt\":\"2099-01-01T00:00:00Z\"}");
    expect("sso", "SSO", "st");
    write_file(name, "{\"accessToken\":\"ssotoken\",\"expiresAt\":\"2001-01-01T00:00:00Z\"}");
    expect_failure("has expired; run: aws sso login");
    write_file(name, "nonsense");
    expect_failure("cannot be read; run: aws sso login");
    /* The older form, whose token is named after the start URL. */
    use_config("[default]\nsso_start_url = https://corp.invalid/start\nsso_region = eu-north-1\n"
               "sso_account_id = 123456789012\nsso_role_name = Admin Role\n");
    write_file(".aws/sso/cache/991e16bf7d00c657d7099cb3208e45e03b5cd0ca.json",
               "{\"accessToken\":\"ssotoken\",\"expiresAt\":\"2099-01-01T00:00:00Z\"}");
    expect("sso", "SSO", "st");
    use_config("[default]\nsso_start_url = https://corp.invalid/start\n");
    expect_failure("SSO needs sso_region");
    end();
}

/* ---- region and endpoint ---- */

TEST(region_and_endpoint_follow_their_order)
{
    struct hf_arena arena = {0};
    struct hf_profiles p;
    struct hf_error error;
    begin(NULL, NULL);
    use_config("[default]\nregion = from-profile\n");
    CHECK_INT(hf__profiles_load(&arena, world.environment, NULL, &p, &error), 0);
    CHECK_STR(hf__region_find(NULL, world.environment, &p), "from-profile");
    set("AWS_DEFAULT_REGION", "from-default");
    CHECK_STR(hf__region_find(NULL, world.environment, &p), "from-default");
    set("AWS_REGION", "from-env");
    CHECK_STR(hf__region_find(NULL, world.environment, &p), "from-env");
    CHECK_STR(hf__region_find("explicit", world.environment, &p), "explicit");
    static const struct {
        const char *region, *url;
    } regions[] = {{"us-east-1", "https://dynamodb.us-east-1.amazonaws.com"},
                   {"cn-north-1", "https://dynamodb.cn-north-1.amazonaws.com.cn"},
                   {"eusc-de-east-1", "https://dynamodb.eusc-de-east-1.amazonaws.eu"}};
    for (size_t i = 0; i < COUNT_OF(regions); i++)
        CHECK_STR(
            hf__endpoint_find(&arena, "dynamodb", regions[i].region, NULL, world.environment, &p),
            regions[i].url);
    set("AWS_USE_FIPS_ENDPOINT", "true");
    CHECK_STR(hf__endpoint_find(&arena, "dynamodb", "us-east-1", NULL, world.environment, &p),
              "https://dynamodb-fips.us-east-1.amazonaws.com");
    set("AWS_USE_FIPS_ENDPOINT", "false");
    set("AWS_USE_DUALSTACK_ENDPOINT", "true");
    CHECK_STR(hf__endpoint_find(&arena, "dynamodb", "us-east-1", NULL, world.environment, &p),
              "https://dynamodb.us-east-1.api.aws");
    use_config("[default]\nendpoint_url = http://from-profile\n");
    CHECK_INT(hf__profiles_load(&arena, world.environment, NULL, &p, &error), 0);
    CHECK_STR(hf__endpoint_find(&arena, "dynamodb", "r", NULL, world.environment, &p),
              "http://from-profile");
    set("AWS_ENDPOINT_URL", "http://general");
    CHECK_STR(hf__endpoint_find(&arena, "dynamodb", "r", NULL, world.environment, &p),
              "http://general");
    set("AWS_ENDPOINT_URL_DYNAMODB", "http://special");
    CHECK_STR(hf__endpoint_find(&arena, "dynamodb", "r", NULL, world.environment, &p),
              "http://special");
    CHECK_STR(hf__endpoint_find(&arena, "dynamodb", "r", "http://explicit", world.environment, &p),
              "http://explicit");
    set("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true");
    CHECK_STR(hf__endpoint_find(&arena, "dynamodb", "r", NULL, world.environment, &p),
              "https://dynamodb.r.api.aws");
    hf__arena_free(&arena);
    end();
}

/* ---- the key_ring ---- */

static int changes;

static void count_change(void *user)
{
    (void)user;
    __atomic_add_fetch(&changes, 1, __ATOMIC_RELAXED);
}

/* Waits, at most ten seconds, until the key_ring answers other than WAIT. */
static enum hf_keeper_state wait_for(struct hf_key_ring *key_ring, struct hf_identity *identity,
                                     struct hf_error *error)
{
    enum hf_keeper_state state = HF_KEEPER_WAIT;
    for (int i = 0; i < 2000 && state == HF_KEEPER_WAIT; i++) {
        state = hf__key_ring_get(key_ring, identity, error);
        if (state == HF_KEEPER_WAIT) usleep(5000);
    }
    return state;
}

static void short_lived(void *user, const struct hf_stub_request *request,
                        struct hf_stub_answer *answer)
{
    (void)user;
    time_t end_time = time(NULL) + 2;
    struct tm parts;
    gmtime_r(&end_time, &parts);
    char text[40];
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    if (request->number > 3) answer->status = 500; /* then the source goes down */
    snprintf(
        answer->body, sizeof answer->body,
        "{\"AccessKeyId\":\"KEY%d\",\"SecretAccessKey\":\"s\",\"Token\":\"t\",\"Expiration\":\"%s\"}",
        request->number, text);
}

static struct hf_key_ring *start_keeper(void)
{
    struct hf_key_ring *key_ring = NULL;
    struct hf_error error;
    struct hf_key_ring_options options = {.environment = world.environment,
                                          .clock = &hf__clock_system,
                                          .endpoint = "http://127.0.0.1:1",
                                          .changed = count_change};
    if (hf__key_ring_start(&options, &key_ring, &error) != 0)
        hf_test_fail(__FILE__, __LINE__, "%s", error.message);
    return key_ring;
}

TEST(credentials_are_refreshed_before_their_end_and_kept_when_the_source_is_down)
{
    struct hf_identity identity;
    struct hf_error error;
    char url[128];
    begin(short_lived, NULL);
    snprintf(url, sizeof url, "%s/creds", hf_stub_url(world.stub));
    set("AWS_CONTAINER_CREDENTIALS_FULL_URI", url);
    struct hf_key_ring *key_ring = start_keeper();
    CHECK_INT(wait_for(key_ring, &identity, &error), HF_KEEPER_READY);
    CHECK_STR(identity.credentials->access_key_id, "KEY1");
    CHECK_STR(identity.region, "us-east-1");
    hf__credentials_unref(identity.credentials);
    /* Without anybody asking, fresh ones are fetched until the source fails. */
    for (int i = 0; i < 2000 && hf_stub_requests(world.stub) < 4; i++) usleep(5000);
    CHECK(hf_stub_requests(world.stub) >= 4);
    CHECK_INT(wait_for(key_ring, &identity, &error), HF_KEEPER_READY);
    CHECK_STR(identity.credentials->access_key_id, "KEY3");
    hf__credentials_unref(identity.credentials);
    hf__key_ring_stop(key_ring);
    hf__key_ring_free(key_ring);
    end();
}

TEST(an_expired_token_is_replaced_on_demand)
{
    struct hf_identity first, second;
    struct hf_error error;
    begin(NULL, NULL);
    use_process(
        "date +%N > \"$0.count\"; echo \"{\\\"Version\\\":1,\\\"AccessKeyId\\\":\\\"K$(cat $0.count)\\\","
        "\\\"SecretAccessKey\\\":\\\"s\\\",\\\"Expiration\\\":\\\"2099-01-01T00:00:00Z\\\"}\"\n");
    struct hf_key_ring *key_ring = start_keeper();
    CHECK_INT(wait_for(key_ring, &first, &error), HF_KEEPER_READY);
    int before = __atomic_load_n(&changes, __ATOMIC_RELAXED);
    hf__key_ring_refresh(key_ring, first.credentials);
    for (int i = 0; i < 2000 && __atomic_load_n(&changes, __ATOMIC_RELAXED) == before; i++)
        usleep(5000);
    CHECK_INT(wait_for(key_ring, &second, &error), HF_KEEPER_READY);
    CHECK(strcmp(first.credentials->access_key_id, second.credentials->access_key_id) != 0);
    hf__credentials_unref(first.credentials);
    hf__credentials_unref(second.credentials);
    hf__key_ring_stop(key_ring);
    hf__key_ring_free(key_ring);
    end();
}

TEST(a_failure_is_told_and_asking_later_tries_again)
{
    struct hf_identity identity;
    struct hf_error error;
    begin(NULL, NULL);
    use_config("[default]\nregion = x\n");
    struct hf_key_ring *key_ring = start_keeper();
    CHECK_INT(wait_for(key_ring, &identity, &error), HF_KEEPER_FAILED);
    CHECK(strstr(error.message, "no AWS credentials found") != NULL);
    write_file("config", "[default]\naws_access_key_id = LATER\naws_secret_access_key = s\n");
    usleep(1100000); /* it does not ask a failing source more than once a second */
    CHECK_INT(wait_for(key_ring, &identity, &error), HF_KEEPER_READY);
    CHECK_STR(identity.credentials->access_key_id, "LATER");
    hf__credentials_unref(identity.credentials);
    hf__key_ring_stop(key_ring);
    hf__key_ring_free(key_ring);
    end();
}

int main(int argc, char **argv)
{
    static const struct hf_test tests[] = {
        RUN(the_environment_comes_first),
        RUN(profiles_are_found_by_name_in_both_files),
        RUN(a_profile_named_in_the_url_wins_over_the_environment),
        RUN(damaged_files_are_named_with_their_line),
        RUN(credentials_that_cannot_be_sent_are_refused),
        RUN(nothing_configured_says_what_to_do),
        RUN(a_process_gives_credentials),
        RUN(a_process_that_hangs_or_floods_is_stopped),
        RUN(a_container_gets_credentials_from_its_host),
        RUN(a_container_does_not_ask_strangers_in_the_clear),
        RUN(an_instance_gets_credentials_and_region_from_its_metadata),
        RUN(an_instance_without_a_role_says_so),
        RUN(a_web_identity_is_exchanged_for_a_role),
        RUN(a_profile_assumes_its_role_with_another_profiles_keys),
        RUN(roles_can_be_chained_and_circles_are_refused),
        RUN(a_role_can_start_from_the_environment_or_a_token_file),
        RUN(an_answer_of_sts_without_credentials_is_refused),
        RUN(sso_uses_the_token_that_login_left),
        RUN(region_and_endpoint_follow_their_order),
        RUN(credentials_are_refreshed_before_their_end_and_kept_when_the_source_is_down),
        RUN(an_expired_token_is_replaced_on_demand),
        RUN(a_failure_is_told_and_asking_later_tries_again),
    };
    return RUN_TESTS(tests);
}
