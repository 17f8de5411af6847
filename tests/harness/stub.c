#include "harness/stub.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_CONNECTIONS = 256 /* at a time */, BUFFER = 1 << 20 };

struct connection {
    struct hf_stub *stub;
    int fd;
    int number;
    pthread_t thread;
    bool ended;           /* its place is free for another one */
    gnutls_session_t tls; /* NULL: none */
};

struct hf_stub {
    hf_stub_fn fn;
    void *user;
    bool is_tls;
    char url[64];
    char certificate[300];
    gnutls_certificate_credentials_t credentials;
    int listener;
    pthread_t acceptor;
    pthread_mutex_t mutex;
    bool stopping;
    int requests;
    struct connection connections[MAX_CONNECTIONS];
    int connection_count; /* of those */
    int accepted;
};

static ssize_t receive(struct connection *c, char *to, size_t size)
{
    if (c->tls) return gnutls_record_recv(c->tls, to, size);
    return recv(c->fd, to, size, 0);
}

static void send_all(struct connection *c, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t sent =
            c->tls ? gnutls_record_send(c->tls, data, len) : send(c->fd, data, len, MSG_NOSIGNAL);
        if (sent <= 0) return;
        data += sent;
        len -= (size_t)sent;
    }
}

const char *hf_stub_header(const struct hf_stub_request *request, const char *name)
{
    static __thread char value[8192];
    size_t len = strlen(name);
    value[0] = '\0';
    for (const char *line = request->headers; *line; line = strchr(line, '\n') + 1) {
        if (strncasecmp(line, name, len) != 0 || line[len] != ':') continue;
        snprintf(value, sizeof value, "%.*s", (int)strcspn(line + len + 2, "\n"), line + len + 2);
        break;
    }
    return value;
}

/* "Name:  value\r\n" lines as "name: value\n". */
static void normalize(const char *from, const char *end, char *to)
{
    while (from < end) {
        const char *stop = strstr(from, "\r\n"), *colon = memchr(from, ':', (size_t)(stop - from));
        for (const char *c = from; c < colon; c++) *to++ = (char)tolower((unsigned char)*c);
        *to++ = ':';
        *to++ = ' ';
        const char *value = colon + 1;
        while (*value == ' ') value++;
        memcpy(to, value, (size_t)(stop - value));
        to += stop - value;
        *to++ = '\n';
        from = stop + 2;
    }
    *to = '\0';
}

static void pause_ms(int ms)
{
    struct timespec pause = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&pause, NULL);
}

/* Answers one request whose head ends at `head`. False: the connection is to be closed. */
static bool serve(struct connection *c, char *buffer, size_t head, size_t body_len)
{
    struct hf_stub *stub = c->stub;
    static const char json[] = "Content-Type: application/x-amz-json-1.0\r\n";
    char *normalized = malloc(head + 1), *line_end = strstr(buffer, "\r\n");
    struct hf_stub_answer answer = {.status = 200};
    char method[16] = "", target[2048] = "", start[256];
    sscanf(buffer, "%15s %2047s", method, target);
    normalize(line_end + 2, buffer + head - 2, normalized);
    struct hf_stub_request request = {
        method, target, normalized, hf__slice(buffer + head, body_len), 0, c->number};
    pthread_mutex_lock(&stub->mutex);
    request.number = ++stub->requests;
    stub->fn(stub->user, &request, &answer);
    pthread_mutex_unlock(&stub->mutex);
    free(normalized);
    if (answer.delay_ms) pause_ms(answer.delay_ms);
    if (answer.action == HF_STUB_CUT) return false;
    snprintf(start, sizeof start, "HTTP/1.1 %d Status\r\n%sContent-Length: %zu\r\n", answer.status,
             json, strlen(answer.body));
    struct hf_slice parts[] = {hf__slice_str(start), hf__slice_str(answer.headers),
                               hf__slice_str("\r\n"), hf__slice_str(answer.body)};
    char *whole = malloc(16384);
    size_t len = 0;
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        memcpy(whole + len, parts[i].ptr, parts[i].len);
        len += parts[i].len;
    }
    send_all(c, whole, len);
    free(whole);
    return answer.action == HF_STUB_ANSWER;
}

static void *run_connection(void *arg)
{
    struct connection *c = arg;
    char *buffer = malloc(BUFFER + 1);
    size_t len = 0;
    bool open = !c->tls || gnutls_handshake(c->tls) == 0;
    while (open) {
        ssize_t got = receive(c, buffer + len, BUFFER - len);
        if (got <= 0) break;
        len += (size_t)got;
        buffer[len] = '\0';
        char *head_end = strstr(buffer, "\r\n\r\n");
        if (!head_end) continue;
        size_t head = (size_t)(head_end + 4 - buffer), body = 0;
        char *length = strcasestr(buffer, "\r\nContent-Length:");
        if (length && length < head_end) body = strtoul(length + 17, NULL, 10);
        if (len < head + body) continue;
        open = serve(c, buffer, head, body);
        memmove(buffer, buffer + head + body, len - head - body);
        len -= head + body;
    }
    free(buffer);
    if (c->tls) gnutls_deinit(c->tls);
    shutdown(c->fd, SHUT_RDWR);
    pthread_mutex_lock(&c->stub->mutex);
    c->ended = true;
    pthread_mutex_unlock(&c->stub->mutex);
    return NULL;
}

/* Where a connection has ended, or a new one; NULL: there are too many. With the mutex. */
static struct connection *take_place(struct hf_stub *stub)
{
    for (int i = 0; i < stub->connection_count; i++) {
        struct connection *c = &stub->connections[i];
        if (!c->ended) continue;
        pthread_join(c->thread, NULL); /* it needs the mutex no more */
        close(c->fd);
        return c;
    }
    return stub->connection_count < MAX_CONNECTIONS ? &stub->connections[stub->connection_count++]
                                                    : NULL;
}

static void add_connection(struct hf_stub *stub, int fd)
{
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    pthread_mutex_lock(&stub->mutex);
    struct connection *c = take_place(stub);
    if (!c) {
        close(fd);
        pthread_mutex_unlock(&stub->mutex);
        return;
    }
    *c = (struct connection){.stub = stub, .fd = fd, .number = ++stub->accepted};
    if (stub->is_tls) {
        gnutls_init(&c->tls, GNUTLS_SERVER | GNUTLS_NO_SIGNAL);
        gnutls_set_default_priority(c->tls);
        gnutls_credentials_set(c->tls, GNUTLS_CRD_CERTIFICATE, stub->credentials);
        gnutls_transport_set_int(c->tls, fd);
    }
    pthread_create(&c->thread, NULL, run_connection, c);
    pthread_mutex_unlock(&stub->mutex);
}

static void *run_acceptor(void *arg)
{
    struct hf_stub *stub = arg;
    for (;;) {
        int fd = accept(stub->listener, NULL, NULL);
        if (fd < 0 && errno == ECONNABORTED) continue;
        if (fd < 0) return NULL;
        add_connection(stub, fd);
    }
}

/* A key, and a certificate for localhost signed with it. */
static void make_certificate(struct hf_stub *stub)
{
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t certificate;
    unsigned char serial = 1;
    gnutls_datum_t pem;
    gnutls_x509_privkey_init(&key);
    gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
                                 GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0);
    gnutls_x509_crt_init(&certificate);
    gnutls_x509_crt_set_version(certificate, 3);
    gnutls_x509_crt_set_key(certificate, key);
    gnutls_x509_crt_set_serial(certificate, &serial, 1);
    gnutls_x509_crt_set_dn(certificate, "CN=localhost", NULL);
    gnutls_x509_crt_set_basic_constraints(certificate, 1, -1);
    gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_DNSNAME, "localhost", 9,
                                         GNUTLS_FSAN_SET);
    gnutls_x509_crt_set_activation_time(certificate, time(NULL) - 3600);
    gnutls_x509_crt_set_expiration_time(certificate, time(NULL) + 3600);
    gnutls_x509_crt_sign2(certificate, certificate, key, GNUTLS_DIG_SHA256, 0);
    gnutls_x509_crt_export2(certificate, GNUTLS_X509_FMT_PEM, &pem);
    snprintf(stub->certificate, sizeof stub->certificate, "%s/stub.pem", hf_test_directory());
    FILE *file = fopen(stub->certificate, "w");
    fwrite(pem.data, 1, pem.size, file);
    fclose(file);
    gnutls_free(pem.data);
    gnutls_certificate_allocate_credentials(&stub->credentials);
    gnutls_certificate_set_x509_key(stub->credentials, &certificate, 1, key);
    gnutls_x509_crt_deinit(certificate);
    gnutls_x509_privkey_deinit(key);
}

struct hf_stub *hf_stub_start(hf_stub_fn fn, void *user, bool tls)
{
    struct hf_stub *stub = calloc(1, sizeof *stub);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    stub->fn = fn;
    stub->user = user;
    stub->is_tls = tls;
    pthread_mutex_init(&stub->mutex, NULL);
    stub->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(stub->listener, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(stub->listener, 64) == 0);
    getsockname(stub->listener, (struct sockaddr *)&address, &size);
    snprintf(stub->url, sizeof stub->url, tls ? "https://localhost:%d" : "http://127.0.0.1:%d",
             ntohs(address.sin_port));
    if (tls) make_certificate(stub);
    pthread_create(&stub->acceptor, NULL, run_acceptor, stub);
    return stub;
}

void hf_stub_stop(struct hf_stub *stub)
{
    shutdown(stub->listener, SHUT_RDWR);
    pthread_join(stub->acceptor, NULL);
    close(stub->listener);
    for (int i = 0; i < stub->connection_count; i++) {
        shutdown(stub->connections[i].fd, SHUT_RDWR);
        pthread_join(stub->connections[i].thread, NULL);
        close(stub->connections[i].fd);
    }
    if (stub->is_tls) gnutls_certificate_free_credentials(stub->credentials);
    pthread_mutex_destroy(&stub->mutex);
    free(stub);
}

const char *hf_stub_url(const struct hf_stub *stub)
{
    return stub->url;
}

const char *hf_stub_certificate(const struct hf_stub *stub)
{
    return stub->certificate;
}

int hf_stub_requests(struct hf_stub *stub)
{
    pthread_mutex_lock(&stub->mutex);
    int requests = stub->requests;
    pthread_mutex_unlock(&stub->mutex);
    return requests;
}
