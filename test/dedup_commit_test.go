package test_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
)

// dyingOnCommit opens a database whose first commit is the process's last deed: its transaction is durable,
// and whatever would have come after it never happens.
func dyingOnCommit(name, dsn string) (*sql.DB, error) {
	db, err := sql.Open(name, dsn)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	return sql.OpenDB(dyingConnector{db.Driver(), dsn}), nil
}

type dyingConnector struct {
	driver driver.Driver
	dsn    string
}

func (c dyingConnector) Driver() driver.Driver { return c.driver }

func (c dyingConnector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.driver.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	return dyingConn{conn}, nil
}

// dyingConn passes on what both drivers have beside the least that a driver must.
type dyingConn struct{ driver.Conn }

func (c dyingConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
	return dyingTx{tx}, err
}

func (c dyingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

func (c dyingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (c dyingConn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.Conn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

type dyingTx struct{ driver.Tx }

func (t dyingTx) Commit() error {
	if err := t.Tx.Commit(); err != nil {
		return err
	}
	die()
	return nil
}
