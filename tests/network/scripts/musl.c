/* Resolves a host, prints its addresses in order of family, and the first line of what its HTTP server says. */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int count, char **words)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
    int families[] = { AF_INET, AF_INET6 }, error = getaddrinfo(words[1], words[2], &hints, &found), fd = -1;
    if (count != 3 || error) {
        fprintf(stderr, "%s: %s\n", words[1], gai_strerror(error));
        return 1;
    }
    for (int family = 0; family < 2; family++)
        for (struct addrinfo *each = found; each; each = each->ai_next)
            if (each->ai_family == families[family]) {
                char text[NI_MAXHOST];
                getnameinfo(each->ai_addr, each->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST);
                printf("address %s\n", text);
            }
    for (struct addrinfo *each = found; each; each = each->ai_next) {
        fd = socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC, each->ai_protocol);
        if (fd >= 0 && connect(fd, each->ai_addr, each->ai_addrlen) == 0)
            break;
        perror("connect");
        fd = -1;
    }
    char line[4096] = "GET / HTTP/1.1\r\nhost: www.example.org\r\nconnection: close\r\n\r\n";
    if (fd < 0 || write(fd, line, strlen(line)) < 0)
        return 2;
    ssize_t length = read(fd, line, sizeof line - 1);
    line[length > 0 ? length : 0] = 0;
    printf("%s\n", strtok(line, "\r\n"));
    return 0;
}
