package convert

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// mpirun is a command line of mpirun or mpiexec.
type mpirun struct {
	// processes is the number of all processes. perNode is the number of processes on each worker. A number that no flag
	// sets is empty.
	processes, perNode string
	// variables are set for all processes. The field exported lists the variables that the processes get from the
	// environment of the launcher. If exportsAll is true, the processes get all variables of this environment.
	variables  []corev1.EnvVar
	exported   []string
	exportsAll bool
	// others are the other flags.
	others []string
	// program is the program and its arguments.
	program []string
}

// mpirunFlags are the flags of Open MPI, Intel MPI and MPICH, with the number of their values. A flag can begin with
// one hyphen or with two.
var mpirunFlags = map[string]int{
	"np": 1, "n": 1, "c": 1, "N": 1, "npernode": 1, "ppn": 1, "perhost": 1, "pernode": 0,
	"x": 1, "env": 2, "genv": 2, "genvlist": 1, "envlist": 1, "genvall": 0, "envall": 0, "genvnone": 0, "envnone": 0,
	"H": 1, "host": 1, "hosts": 1, "hostfile": 1, "machinefile": 1, "default-hostfile": 1, "f": 1,
	"mca": 2, "gmca": 2, "prtemca": 2, "pmixmca": 2, "am": 1, "tune": 1, "prefix": 1, "path": 1,
	"bind-to": 1, "map-by": 1, "rank-by": 1, "bynode": 0, "byslot": 0, "bycore": 0, "bysocket": 0, "bind-to-none": 0,
	"bind-to-core": 0, "bind-to-socket": 0, "cpus-per-proc": 1, "cpus-per-rank": 1, "cpu-set": 1, "report-bindings": 0,
	"allow-run-as-root": 0, "oversubscribe": 0, "nooversubscribe": 0, "use-hwthread-cpus": 0, "do-not-launch": 0,
	"tag-output": 0, "timestamp-output": 0, "output-filename": 1, "output": 1, "merge-stderr-to-stdout": 0, "stdin": 1,
	"display": 1, "display-map": 0, "display-allocation": 0, "display-devel-map": 0, "wdir": 1, "wd": 1, "timeout": 1,
	"get-stack-traces": 0, "report-state-on-timeout": 0, "v": 0, "verbose": 0, "q": 0, "quiet": 0, "d": 0, "debug": 0,
	"bootstrap": 1, "bootstrap-exec": 1, "launcher": 1, "launcher-exec": 1, "iface": 1, "rmk": 1, "print-rank-map": 0,
	"prepend-rank": 0, "l": 0, "outfile-pattern": 1, "errfile-pattern": 1, "nolocal": 0, "disable-auto-cleanup": 0,
	"enable-recovery": 0, "disable-recovery": 0, "personality": 1, "rsh": 1, "ssh": 1, "s": 1, "tmpdir": 1,
}

// parseMPIRun reads the flags of mpirun and the program after them.
func parseMPIRun(words []string) (*mpirun, error) {
	m := &mpirun{}
	for i := 0; i < len(words); i++ {
		if !strings.HasPrefix(words[i], "-") {
			m.program = words[i:]
			if slices.Contains(m.program, ":") { // a colon separates the command lines of several programs
				return nil, errors.New("mpirun runs several programs, and a DeepSpeedJob runs one")
			}
			return m, nil
		}
		name, value, hasValue := strings.Cut(strings.TrimLeft(words[i], "-"), "=")
		count, known := mpirunFlags[name]
		switch {
		case !known, hasValue && count != 1:
			return nil, fmt.Errorf("mpirun has the flag %s, which is not known, so its program cannot be found", words[i])
		case hasValue:
			m.set(name, []string{value}, words[i:i+1])
		case i+count >= len(words):
			return nil, fmt.Errorf("the flag %s of mpirun has no value", words[i])
		default:
			m.set(name, words[i+1:i+1+count], words[i:i+1+count])
			i += count
		}
	}
	return nil, errors.New("mpirun has no program")
}

// set records a flag.
func (m *mpirun) set(name string, values, original []string) {
	switch name {
	case "np", "n", "c":
		m.processes = values[0]
	case "N", "npernode", "ppn", "perhost":
		m.perNode = values[0]
	case "pernode":
		m.perNode = "1"
	case "x":
		if variable, value, isSet := strings.Cut(values[0], "="); isSet {
			m.variables = append(m.variables, corev1.EnvVar{Name: variable, Value: value})
		} else {
			m.exported = append(m.exported, variable)
		}
	case "env", "genv":
		m.variables = append(m.variables, corev1.EnvVar{Name: values[0], Value: values[len(values)-1]})
	case "envlist", "genvlist":
		m.exported = append(m.exported, strings.Split(values[0], ",")...)
	case "envall", "genvall":
		m.exportsAll = true
	default:
		m.others = append(m.others, strings.Join(original, " "))
	}
}
