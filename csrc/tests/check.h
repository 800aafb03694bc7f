// The test harness for C: CHECK for conditions, and REFUSED for calls that fail.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <idcwh/idcwh.h>

static int failures = 0;

#define CHECK(condition)                                                                                       \
    do {                                                                                                       \
        if (!(condition) && ++failures <= 20) printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
    } while (0)

// Checks that a call fails with this status and that its message contains all words, which are separated by |.
static int refused_at(const char* file, int line, int expected, const char* words, int status) {
    char copy[256];
    int good = status == expected;
    snprintf(copy, sizeof copy, "%s", words);
    for (char* word = strtok(copy, "|"); word; word = strtok(NULL, "|"))
        good = good && strstr(idcwh_last_error(), word) != NULL;
    if (!good && ++failures <= 20)
        printf("%s:%d: expected status %d with '%s', got %d with '%s'\n", file, line, expected, words, status,
               status ? idcwh_last_error() : "");
    return good;
}
#define INVALID(words, call) refused_at(__FILE__, __LINE__, IDCWH_INVALID_ARGUMENT, words, call)
#define REFUSED(status, words, call) refused_at(__FILE__, __LINE__, status, words, call)
