package dedup

import (
	"fmt"
	"regexp"
	"strings"
)

// Dialect is a database's way with SQL.
type Dialect int

// The dialects.
const (
	PostgreSQL Dialect = iota + 1 // 9.5 or later
	SQLite                        // 3.24 or later
)

// purgeBatch is how many keys one statement purges.
const purgeBatch = 1000

// statements are a dialect's, with the table's name in them.
type statements struct {
	schema                        []string
	insert, result, lookUp, purge string
}

func (d Dialect) statements(table string) statements {
	index := table[strings.LastIndexByte(table, '.')+1:] + "_done_at"
	expand := strings.NewReplacer("{table}", table, "{index}", index, "{batch}", fmt.Sprint(purgeBatch))
	s := statements{
		insert: `INSERT INTO {table} (scope, business_key) VALUES ($1, $2) ON CONFLICT (scope, business_key) DO NOTHING`,
		result: `UPDATE {table} SET result = $1 WHERE scope = $2 AND business_key = $3`,
		lookUp: `SELECT result FROM {table} WHERE scope = $1 AND business_key = $2`,
	}
	switch d {
	case PostgreSQL:
		s.schema = []string{
			`CREATE TABLE IF NOT EXISTS {table} (
  scope        text        NOT NULL,
  business_key text        NOT NULL,
  result       bytea,
  done_at      timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (scope, business_key)
)`,
			`CREATE INDEX IF NOT EXISTS {index} ON {table} (done_at)`,
		}
		s.purge = `DELETE FROM {table} WHERE (scope, business_key) IN (
  SELECT scope, business_key FROM {table} WHERE done_at < now() - $1 * interval '1 second' LIMIT {batch})`
	case SQLite:
		s.schema = []string{
			`CREATE TABLE IF NOT EXISTS {table} (
  scope        TEXT    NOT NULL,
  business_key TEXT    NOT NULL,
  result       BLOB,
  done_at      INTEGER NOT NULL DEFAULT (CAST(strftime('%s', 'now') AS INTEGER)),
  PRIMARY KEY (scope, business_key)
) WITHOUT ROWID`,
			`CREATE INDEX IF NOT EXISTS {index} ON {table} (done_at)`,
		}
		s.purge = `DELETE FROM {table} WHERE (scope, business_key) IN (
  SELECT scope, business_key FROM {table} WHERE done_at < CAST(strftime('%s', 'now') AS INTEGER) - $1 LIMIT {batch})`
		positional := regexp.MustCompile(`\$\d`)
		for _, q := range []*string{&s.insert, &s.result, &s.lookUp, &s.purge} {
			*q = positional.ReplaceAllString(*q, "?")
		}
	}
	for i := range s.schema {
		s.schema[i] = expand.Replace(s.schema[i])
	}
	for _, q := range []*string{&s.insert, &s.result, &s.lookUp, &s.purge} {
		*q = expand.Replace(*q)
	}
	return s
}

func plainTable(name string) bool {
	return regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,54}$`).MatchString(name)
}
