package app

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/internal/web"
)

// doubts lists the settings of a good configuration that are set in vain, or that hardly do what
// is meant, each with its place in the file.
func doubts(cfg *config.Config) []string {
	d := &doubter{cfg: cfg}
	for i, a := range cfg.Accounts {
		key := fmt.Sprintf("accounts[%d]", i)
		for j, q := range a.Queues {
			d.queue(fmt.Sprintf("%s.queues[%d]", key, j), q)
		}
	}
	d.say(cfg.Server.TokensFile != "" && !Loopback(cfg.Server.Listen) && !web.UsesTLS(cfg.Server.WebConfigFile), "server.tokensFile",
		"tokens cross the network readable: server.listen is not a loopback address, and serves without TLS; turn TLS on by server.webConfigFile, or put it in front")
	d.say(cfg.Server.GRPCTLS != nil && cfg.Server.GRPC == config.Off, "server.grpcTLS", "the gRPC listener is off: its files are not read")
	return d.list
}

// Loopback says whether only programs of the same host reach a listener at address.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip, notIP := netip.ParseAddr(host)
	return err == nil && (host == "localhost" || notIP == nil && ip.Unmap().IsLoopback())
}

type doubter struct {
	cfg  *config.Config
	list []string
}

func (d *doubter) say(when bool, path, text string) {
	if when {
		d.list = append(d.list, d.cfg.At(path)+": "+text)
	}
}

func (d *doubter) queue(key string, q config.Queue) {
	c := q.Consumer
	if c == nil {
		create := key + ".createIfMissing"
		d.say(q.CreateIfMissing && d.cfg.Set(create), create, "watching creates nothing, and the queue has no consumer: only qwatch queue send creates it")
		return
	}
	if e := c.Handler.Exec; e != nil && len(e.Command) > 0 {
		why := notStartable(e.Dir, e.Command[0])
		d.say(why != "", key+".consumer.handler.exec.command", "the program "+why+" here, and messages wait until it can be started; install it or mend the name")
	}
}

// notStartable says why a program, found from dir when its name is relative, cannot be started as
// things are; "" when it can.
func notStartable(dir, program string) string {
	if strings.ContainsRune(program, filepath.Separator) && !filepath.IsAbs(program) {
		if dir == "" {
			dir = "."
		}
		program = dir + string(filepath.Separator) + program
	}
	switch _, err := exec.LookPath(program); {
	case err == nil:
		return ""
	case errors.Is(err, exec.ErrNotFound):
		return "is not found in PATH"
	case errors.Is(err, exec.ErrDot):
		return "is found in the current directory alone, which PATH does not count,"
	case errors.Is(err, fs.ErrNotExist):
		return "does not exist"
	default:
		return "cannot be executed"
	}
}
