package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/crypto/ssh"
)

// call is a parsed command line of ssh.
type call struct {
	host    string
	port    int
	noStdin bool
	command string
}

// sshFlags are the options of OpenSSH's client without an argument, and sshOptions are its options with an argument.
// pdsh and DeepSpeed pass such options. Only -n and -p have an effect. The others are ignored, since the settings of
// the connection to a worker are fixed.
const (
	sshFlags   = "1246AaCfGgKkMNnqsTtVvXxYy"
	sshOptions = "BbcDEeFIiJLlmOoPpQRSWw"
)

// parseCall parses a command line as OpenSSH does. Options come before the host and directly after it.
func parseCall(args []string) (call, error) {
	var c call
	for len(args) > 0 {
		arg := args[0]
		switch {
		case len(arg) > 1 && arg[0] == '-':
			used, err := c.parseOptions(arg[1:], args[1:])
			if err != nil {
				return c, err
			}
			args = args[1+used:]
		case c.host == "":
			c.host = arg[strings.LastIndex(arg, "@")+1:]
			args = args[1:]
		default:
			c.command = strings.Join(args, " ")
			return c, nil
		}
	}
	if c.host == "" {
		return c, errors.New("usage: ssh [options] [user@]host command")
	}
	return c, fmt.Errorf("no command for %s: this ssh only runs commands; for a shell, use kubectl exec", c.host)
}

// parseOptions parses options that share a dash. It returns how many of the following arguments belong to them.
func (c *call) parseOptions(letters string, following []string) (int, error) {
	for i, letter := range letters {
		switch {
		case strings.ContainsRune(sshOptions, letter):
			value, used := letters[i+1:], 0
			if value == "" {
				if len(following) == 0 {
					return 0, fmt.Errorf("option -%c needs an argument", letter)
				}
				value, used = following[0], 1
			}
			if letter != 'p' {
				return used, nil
			}
			port, err := strconv.ParseUint(value, 10, 16)
			c.port = int(port)
			if err != nil || port == 0 {
				return 0, fmt.Errorf("option -p needs a port, got %q", value)
			}
			return used, nil
		case letter == 'n':
			c.noStdin = true
		case !strings.ContainsRune(sshFlags, letter):
			return 0, fmt.Errorf("unknown option -%c", letter)
		}
	}
	return 0, nil
}

// sink is an output stream to pdsh. When pdsh has ended, the sink calls the function broken, and writes the output to
// the writer late.
type sink struct {
	file   *os.File
	broken func()
	late   io.Writer // gets the output that the file can no longer take
}

// Write never fails, so that the session continues until the end of the command even if its output is lost.
func (s sink) Write(p []byte) (int, error) {
	if n, err := s.file.Write(p); err != nil {
		s.broken()
		_, _ = s.late.Write(p[n:])
	}
	return len(p), nil
}

// isNodeCommand reports whether the command starts the ranks of a host. In such a command, arguments follow the name
// of DeepSpeed's module. DeepSpeed's command to end the ranks has this name as its last word.
func isNodeCommand(command string) bool {
	return strings.Contains(command, "-m deepspeed.launcher.launch ")
}

// isEndCommand reports whether the command is the one by which a terminated launcher of DeepSpeed ends the ranks of a
// host.
func isEndCommand(command string) bool {
	return strings.HasPrefix(command, "pkill -f ") && strings.Contains(command, `-m\ deepspeed.launcher.launc`)
}

// sshMain runs ssh with the arguments and returns the exit code.
func sshMain(args []string) int {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	signal.Ignore(syscall.SIGPIPE)
	o := defaults()
	c, err := parseCall(args)
	if err == nil {
		var code int
		if code, err = c.report(&o, signals); err == nil {
			return code
		}
	}
	fmt.Fprintln(o.stderr, "ssh:", err)
	return exitLost
}

// report runs the command. If the command is a node command, the client reports its start and its end to the
// subcommand launch on worker 0.
func (c call) report(o *options, signals <-chan os.Signal) (int, error) {
	socket := os.Getenv(envSocket)
	if isEndCommand(c.command) && socket != "" {
		return 0, nil // the subcommand launch ends the ranks on all hosts, and each rank must get SIGTERM only once
	}
	if isNodeCommand(c.command) {
		c.command = showWords(c.command, os.Getenv)
	} else {
		socket = ""
	}
	r, err := openReporter(socket, c.host)
	if err != nil {
		return exitLost, err
	}
	var printed tail
	code, err := c.run(o, signals, r, &printed)
	r.end(code, err != nil, printed.String())
	return code, err
}

// run runs the command on the host. It ends the command early on a signal, when the subcommand launch requests the
// end, or when the output can no longer be written. In these cases, it asks the server to end the command and waits
// for the result, so that all processes on the host have ended when the function returns. The writer printed receives
// a copy of the output.
func (c call) run(o *options, signals <-chan os.Signal, r *reporter, printed io.Writer) (int, error) {
	if key, ok := os.LookupEnv(envKey); ok {
		o.key = key
	}
	if port, err := strconv.Atoi(os.Getenv(envPort)); err == nil {
		o.port = port
	}
	port := c.port
	if port == 0 {
		var err error
		if port, err = o.portAt(c.host); err != nil {
			return exitLost, err
		}
	}
	key, err := readKey(o.key)
	if err != nil {
		return exitLost, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		defer cancel()
		select {
		case <-signals:
		case <-r.over:
		case <-ctx.Done():
		}
	}()
	client, err := dialer{key: key, port: port, timing: o.timing}.dial(ctx, c.host)
	if err != nil {
		return exitLost, err
	}
	session, err := client.NewSession()
	if err != nil {
		return exitLost, fmt.Errorf("%s: %w", c.host, err)
	}
	if !c.noStdin {
		session.Stdin = os.Stdin
	}
	stdout, stderr := io.Writer(sink{o.stdout, cancel, r.late()}), io.Writer(sink{o.stderr, cancel, r.late()})
	if isNodeCommand(c.command) {
		stdout, stderr = &bar{Writer: stdout, interval: barInterval}, &bar{Writer: stderr, interval: barInterval}
	}
	session.Stdout, session.Stderr = io.MultiWriter(printed, stdout), io.MultiWriter(printed, stderr)
	if err := session.Start(c.command); err != nil {
		return exitLost, fmt.Errorf("%s did not run the command: %w: see the log of that worker", c.host, err)
	}
	context.AfterFunc(ctx, func() { _ = session.Signal(ssh.SIGTERM) })
	err = session.Wait()
	if exit, ok := errors.AsType[*ssh.ExitError](err); ok {
		return exit.ExitStatus(), nil
	}
	if err != nil {
		return exitLost, fmt.Errorf("lost the connection to %s: %w", c.host, err)
	}
	return 0, nil
}
