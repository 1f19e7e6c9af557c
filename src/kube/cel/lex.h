/* SPDX-License-Identifier: Apache-2.0 */
/* What the lexer and the parser of expressions share. Not for others. */
#pragma once

#include "kube/cel/cel_priv.h"

enum cel_tok { T_END, T_IDENT, T_INT, T_UINT, T_DOUBLE, T_STRING, T_BYTES, T_PUNCT };

struct cel_parser {
    struct sw_cel *c;
    size_t pos; /* next byte to lex */
    unsigned depth;
    size_t nodes;
    /* current token */
    enum cel_tok tok;
    size_t at;
    struct sw_slice text; /* punctuation, identifier, or decoded string */
    struct cel_val value;
};

/* Reads the next token; T_END at the end and after any failure. */
void cel_advance(struct cel_parser *p);
