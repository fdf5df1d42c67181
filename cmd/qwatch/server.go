package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/internal/client"
	"github.com/qwatch/qwatch/internal/story"
)

// server is the running qwatch that a command asks in the place of storage.
type server struct {
	url       string
	tokenFile string
	ca        string
	cert, key string
}

// serverFlags adds --server and what goes with it.
func (c *cli) serverFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.server.url, "server", "", "ask the qwatch running at this `URL` instead of storage; off for none (default $QWATCH_SERVER)")
	f.StringVar(&c.server.tokenFile, "token-file", "", "`file` with the token for --server (default $QWATCH_TOKEN_FILE; $QWATCH_TOKEN is the token itself)")
	f.StringVar(&c.server.ca, "server-ca", "", "`file` with the certificates that sign --server's, as PEM (default the system's)")
	f.StringVar(&c.server.cert, "server-cert", "", "`file` with a client certificate for --server, as PEM")
	f.StringVar(&c.server.key, "server-key", "", "`file` with its key")
}

// again is what a command that is told to somebody needs to ask the same server: the flags that were given, without
// what may be secret in the URL.
func (s server) again() string {
	u, err := url.Parse(s.url)
	if s.url == "" || err != nil || u.Host == "" {
		return ""
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	text := " --server " + story.Quote(u.String())
	for _, f := range [][2]string{{"--token-file", s.tokenFile}, {"--server-ca", s.ca}, {"--server-cert", s.cert}, {"--server-key", s.key}} {
		if f[1] != "" {
			text += " " + f[0] + " " + story.Quote(f[1])
		}
	}
	return text
}

// remote returns a client for --server; nil when the command is to ask storage itself.
func (c *cli) remote() (*client.Client, error) {
	s := c.server
	s.url = c.serverURL()
	if s.url == serverOff {
		return nil, nil
	}
	if s.url == "" {
		for flag, value := range map[string]string{"--token-file": s.tokenFile, "--server-ca": s.ca, "--server-cert": s.cert, "--server-key": s.key} {
			if value != "" {
				return nil, usagef("%s goes with --server, which is not given", flag)
			}
		}
		return nil, nil
	}
	if c.config != "" && c.server.url == "" {
		return nil, usagef("-c and QWATCH_SERVER of the environment contradict each other: that server has its own configuration; to use the file give --server off, or unset QWATCH_SERVER")
	}
	if c.config != "" {
		return nil, usagef("-c and --server contradict each other: the server has its own configuration")
	}
	if c.timeout <= 0 {
		return nil, usagef("--timeout %v must be above zero", c.timeout)
	}
	token, err := c.token()
	if err != nil {
		return nil, err
	}
	cl, err := client.New(client.Config{
		URL: s.url, Token: token, CAFile: s.ca, CertFile: s.cert, KeyFile: s.key,
		Timeout: c.timeout, UserAgent: "qwatch/" + build().Version,
	})
	if err != nil {
		return nil, usagef("--server: %w", err)
	}
	return cl, nil
}

// serverOff is what --server says to have no server asked, whatever the environment says.
const serverOff = "off"

// serverURL is the server to ask: --server, or what the environment says; "" or serverOff for none.
func (c *cli) serverURL() string {
	if c.server.url != "" {
		return c.server.url
	}
	return c.getenv("QWATCH_SERVER")
}

// noTrends says whether nobody is asked, not even for trends.
func (c *cli) noTrends() bool { return c.serverURL() == serverOff }

// maxToken bounds a token's file.
const maxToken = 4 << 10

func (c *cli) token() (string, error) {
	file := c.server.tokenFile
	if file == "" {
		if t := c.getenv("QWATCH_TOKEN"); t != "" {
			return t, nil
		}
		if file = c.getenv("QWATCH_TOKEN_FILE"); file == "" {
			return "", nil
		}
	}
	info, err := os.Stat(file)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxToken) {
		err = fmt.Errorf("%s does not hold one token", file)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(file)
	}
	if err != nil {
		return "", usagef("read the token: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// names splits ACCOUNT/QUEUE for the server, which knows which there are.
func names(name string) (account, queue string, err error) {
	account, queue, ok := strings.Cut(name, "/")
	if !ok || account == "" || queue == "" || strings.Contains(queue, "/") {
		return "", "", usagef("%q is not the name of a queue: write ACCOUNT/QUEUE", name)
	}
	return account, queue, nil
}

// onServer runs f with a client for --server, if that is given.
func (c *cli) onServer(ctx context.Context, f func(context.Context, *client.Client) error) (asked bool, err error) {
	cl, err := c.remote()
	if cl == nil || err != nil {
		return err != nil, err
	}
	defer cl.Close()
	return true, f(ctx, cl)
}
