package agent

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// EnvAddresses is the environment variable with the addresses of the ssh servers in a job with hostNetwork, in which
// every worker listens on a separate port. Its value is the format of the host names, with %d for the index, and the
// port of worker 0. The port of worker n is the port of worker 0 plus n. The variable is set in the containers of the
// workers, so that every process can read it.
const EnvAddresses = "T9K_SSH_ADDRESSES"

// Addresses returns the value of EnvAddresses.
func Addresses(hostFormat string, firstPort int) string {
	return hostFormat + ":" + strconv.Itoa(firstPort)
}

// addresses parses the value of EnvAddresses. The port is 0 if the variable is unset or invalid.
func addresses() (hostFormat string, firstPort int) {
	value := os.Getenv(EnvAddresses)
	at := strings.LastIndexByte(value, ':')
	port, err := strconv.ParseUint(value[at+1:], 10, 16)
	if at < 0 || err != nil || !validFormat(value[:at]) {
		return "", 0
	}
	return value[:at], int(port)
}

// portOf returns the port of a worker's ssh server.
func (o *options) portOf(worker int) int {
	if o.firstPort == 0 {
		return o.port
	}
	return o.firstPort + worker
}

// portAt returns the port of the ssh server at a host.
func (o *options) portAt(host string) (int, error) {
	if o.firstPort == 0 {
		return o.port, nil
	}
	worker, ok := o.workerAt(host)
	if !ok {
		return 0, fmt.Errorf("the port of %s is unknown: with hostNetwork, use a host name from the hostfile", host)
	}
	return o.portOf(worker), nil
}

// workerAt returns the index of the worker with the host name. The last labels of the host name can be missing.
func (o *options) workerAt(host string) (int, bool) {
	prefix, suffix, _ := strings.Cut(o.host, "%d")
	rest, ok := strings.CutPrefix(strings.TrimSuffix(host, "."), prefix)
	if !ok {
		return 0, false
	}
	digits, labels := rest, ""
	if dot := strings.IndexByte(rest, '.'); dot >= 0 {
		digits, labels = rest[:dot], rest[dot:]
	}
	worker, err := strconv.ParseUint(digits, 10, 16)
	return int(worker), err == nil && strings.HasPrefix(suffix+".", labels+".")
}
