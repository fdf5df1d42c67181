package dedup_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

// fakeDB is a database/sql driver with one table of keys: transactions, a unique key whose second insert
// waits for the first's transaction, and commits that fail on request. Everything else it is asked to
// execute is noted in the transaction, and applied with its commit.
type fakeDB struct {
	mu      sync.Mutex
	keys    map[string]*fakeKey
	applied []string // statements of committed transactions
	purged  []int64  // ages asked for, in seconds

	failBegin, failInsert, failLookUp error
	failCommit                        error
	commitAnyway                      bool // the commit happens, its answer is lost
	purgeable                         int64
}

type fakeKey struct {
	over   chan struct{} // closed when its transaction has ended
	done   bool
	result []byte
}

// Connect implements driver.Connector.
func (db *fakeDB) Connect(context.Context) (driver.Conn, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	return &fakeConn{db: db}, nil
}

// Driver implements driver.Connector.
func (db *fakeDB) Driver() driver.Driver { return nil }

func (db *fakeDB) open() *sql.DB { return sql.OpenDB(db) }

type fakeConn struct {
	db    *fakeDB
	inTx  bool
	mine  map[string]*fakeKey
	notes []string
}

func (c *fakeConn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("not prepared") }
func (c *fakeConn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

func (c *fakeConn) Close() error {
	if c.inTx {
		return c.Rollback()
	}
	return nil
}

func (c *fakeConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	if c.inTx {
		return nil, errors.New("a transaction within a transaction")
	}
	if c.db.failBegin != nil {
		return nil, c.db.failBegin
	}
	c.inTx, c.mine, c.notes = true, map[string]*fakeKey{}, nil
	return c, nil
}

func (c *fakeConn) Commit() error {
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	if err := c.db.failCommit; err != nil && !c.db.commitAnyway {
		return err // and stays in the transaction, as SQLite does
	}
	for _, k := range c.mine {
		k.done = true
		close(k.over)
	}
	c.db.applied = append(c.db.applied, c.notes...)
	c.inTx = false
	return c.db.failCommit
}

func (c *fakeConn) Rollback() error {
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	for name, k := range c.mine {
		delete(c.db.keys, name)
		close(k.over)
	}
	c.inTx = false
	return nil
}

func (c *fakeConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	switch {
	case query == "ROLLBACK" && c.inTx:
		return driver.RowsAffected(0), c.Rollback()
	case query == "ROLLBACK":
		return nil, errors.New("no transaction is active")
	case strings.HasPrefix(query, "INSERT INTO qwatch_dedup "):
		return c.insert(ctx, fmt.Sprint(args[0].Value, " ", args[1].Value))
	case strings.HasPrefix(query, "UPDATE qwatch_dedup "):
		c.db.mu.Lock()
		defer c.db.mu.Unlock()
		c.mine[fmt.Sprint(args[1].Value, " ", args[2].Value)].result = args[0].Value.([]byte)
		return driver.RowsAffected(1), nil
	case strings.HasPrefix(query, "DELETE FROM qwatch_dedup "):
		c.db.mu.Lock()
		defer c.db.mu.Unlock()
		c.db.purged = append(c.db.purged, args[0].Value.(int64))
		n := min(c.db.purgeable, 1000)
		c.db.purgeable -= n
		return driver.RowsAffected(n), nil
	}
	for i, a := range args {
		query = strings.Replace(query, fmt.Sprint("$", i+1), fmt.Sprint(a.Value), 1)
	}
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	if c.inTx {
		c.notes = append(c.notes, query)
	} else {
		c.db.applied = append(c.db.applied, query)
	}
	return driver.RowsAffected(1), nil
}

func (c *fakeConn) insert(ctx context.Context, name string) (driver.Result, error) {
	for {
		c.db.mu.Lock()
		if err := c.db.failInsert; err != nil {
			c.db.mu.Unlock()
			return nil, err
		}
		k := c.db.keys[name]
		if k == nil {
			if c.db.keys == nil {
				c.db.keys = map[string]*fakeKey{}
			}
			k = &fakeKey{over: make(chan struct{})}
			c.db.keys[name], c.mine[name] = k, k
			c.db.mu.Unlock()
			return driver.RowsAffected(1), nil
		}
		done := k.done
		c.db.mu.Unlock()
		if done {
			return driver.RowsAffected(0), nil
		}
		select {
		case <-k.over:
		case <-ctx.Done():
			return nil, fmt.Errorf("driver gave up: %w", ctx.Err())
		}
	}
}

func (c *fakeConn) QueryContext(_ context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if !strings.HasPrefix(query, "SELECT result FROM qwatch_dedup ") {
		return nil, errors.New("cannot " + query)
	}
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	if c.db.failLookUp != nil {
		return nil, c.db.failLookUp
	}
	k := c.db.keys[fmt.Sprint(args[0].Value, " ", args[1].Value)]
	if k == nil || !k.done && c.mine[fmt.Sprint(args[0].Value, " ", args[1].Value)] != k {
		return &fakeRows{}, nil
	}
	return &fakeRows{rows: [][]byte{k.result}}, nil
}

type fakeRows struct{ rows [][]byte }

func (r *fakeRows) Columns() []string { return []string{"result"} }
func (r *fakeRows) Close() error      { return nil }
func (r *fakeRows) Next(dest []driver.Value) error {
	if len(r.rows) == 0 {
		return io.EOF
	}
	dest[0] = any(r.rows[0])
	if r.rows[0] == nil {
		dest[0] = nil
	}
	r.rows = r.rows[1:]
	return nil
}
