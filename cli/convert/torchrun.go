package convert

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// launch is a command line of torchrun. Unset fields are empty.
type launch struct {
	// launcher is the command without flags, such as torchrun or python -m torch.distributed.run.
	launcher string
	// These are the values of --nnodes, --nproc_per_node, --rdzv_backend, --rdzv_endpoint and --max_restarts.
	nodes, procs, backend, endpoint, maxRestarts string
	// options are the other flags that the result keeps.
	options []string
	// superseded are the flags that the result leaves out, because the controller sets the rendezvous.
	superseded []string
	standalone bool
	// hasConf is whether a flag sets the configuration of the rendezvous.
	hasConf bool
	// passesLocalRank is whether the launcher passes --local-rank to the script.
	passesLocalRank bool
	// program is the script and its arguments. If the field options has --module, program is a module and its arguments.
	program []string
}

// python matches the names of Python interpreters.
var python = regexp.MustCompile(`^python[0-9.]*$`)

// torchrunFlags are the flags of torchrun. The value is true if the flag needs an argument. torchrun also accepts the
// names with hyphens.
var torchrunFlags = map[string]bool{
	"nnodes": true, "nproc_per_node": true, "rdzv_backend": true, "rdzv_endpoint": true, "rdzv_id": true,
	"rdzv_conf": true, "max_restarts": true, "monitor_interval": true, "start_method": true, "event_log_handler": true,
	"role": true, "log_dir": true, "redirects": true, "tee": true, "local_ranks_filter": true, "node_rank": true,
	"master_addr": true, "master_port": true, "local_addr": true, "logs_specs": true, "numa_binding": true,
	"signals_to_handle": true, "duplicate_stdout_filters": true, "duplicate_stderr_filters": true, "r": true, "t": true,
	"standalone": false, "module": false, "m": false, "no_python": false, "run_path": false, "use_env": false,
	"virtual_local_rank": false,
}

// errOtherProgram means that a command line does not run torchrun.
var errOtherProgram = errors.New("the command does not run torchrun")

// errScript means that a shell runs torchrun in a script that only a shell can run.
var errScript = errors.New("the script of the shell is more than a plain command")

// parseTorchrun reads a command line. It returns errOtherProgram if the command does not run torchrun, and another
// error if the command needs a shell or has flags that parseTorchrun cannot read.
func parseTorchrun(words []string) (*launch, error) {
	if script, isShell := scriptOf(words); isShell {
		plain, ok := plainWords(script)
		if !ok {
			if strings.Contains(script, "torchrun") || strings.Contains(script, "torch.distributed.") {
				return nil, errScript
			}
			return nil, errOtherProgram
		}
		words = plain
	}
	l := &launch{}
	name, flags := "", 0
	switch base := path.Base(words[0]); {
	case base == "torchrun":
		name, flags = base, 1
	case python.MatchString(base):
		rest := words[1:]
		if len(rest) > 0 && rest[0] == "-u" { // ignore -u: the controller makes Python unbuffered
			rest = rest[1:]
		}
		if len(rest) < 2 || rest[0] != "-m" {
			return nil, errOtherProgram
		}
		name, flags = rest[1], len(words)-len(rest)+2
	}
	switch name {
	case "torchrun", "torch.distributed.run":
	case "torch.distributed.launch":
		l.passesLocalRank = true
	default:
		return nil, errOtherProgram
	}
	l.launcher = strings.Join(words[:flags], " ")
	return l, l.parseFlags(words[flags:])
}

// parseFlags reads the flags of torchrun, and the program after them.
func (l *launch) parseFlags(words []string) error {
	for i := 0; i < len(words); i++ {
		flag, isFlag := strings.CutPrefix(words[i], "-")
		if !isFlag {
			l.program = words[i:]
			return nil
		}
		flag, value, hasValue := strings.Cut(strings.TrimPrefix(flag, "-"), "=")
		name := strings.ReplaceAll(flag, "-", "_")
		needsValue, known := torchrunFlags[name]
		original := words[i : i+1]
		switch {
		case !known || hasValue && !needsValue:
			return fmt.Errorf("the flag %s is none that torchrun is known to have", words[i])
		case needsValue && !hasValue && i+1 == len(words):
			return fmt.Errorf("the flag %s has no value", words[i])
		case needsValue && !hasValue:
			i++
			value, original = words[i], words[i-1:i+1]
		}
		l.set(name, value, original)
	}
	return errors.New("torchrun has no script")
}

// set records a flag. It leaves out a flag such as --nnodes=$(PET_NNODES), because torchrun reads this variable
// anyway if the flag is unset.
func (l *launch) set(name, value string, original []string) {
	if value == "$(PET_"+strings.ToUpper(name)+")" {
		return
	}
	switch name {
	case "nnodes":
		l.nodes = value
	case "nproc_per_node":
		l.procs = value
	case "rdzv_backend":
		l.backend = value
	case "rdzv_endpoint":
		l.endpoint = value
	case "max_restarts":
		l.maxRestarts = value
	case "standalone":
		l.standalone = true
	case "use_env":
		l.passesLocalRank = false
	case "rdzv_id", "node_rank", "master_addr", "master_port":
		l.superseded = append(l.superseded, strings.Join(original, " "))
	case "rdzv_conf":
		l.hasConf = true
		l.options = append(l.options, original...)
	default:
		l.options = append(l.options, original...)
	}
}

// reference matches a reference to a variable of a container.
var reference = regexp.MustCompile(`\$\([A-Za-z_][A-Za-z0-9_]*\)`)

// expand replaces the references to variables in the fields nodes, procs, backend and maxRestarts. The parameter
// values maps the names of the variables to their values.
func (l *launch) expand(values map[string]string) {
	for _, flag := range []*string{&l.nodes, &l.procs, &l.backend, &l.maxRestarts} {
		*flag = reference.ReplaceAllStringFunc(*flag, func(found string) string {
			if value, ok := values[strings.Trim(found, "$()")]; ok {
				return value
			}
			return found
		})
	}
}

// needsShell reports whether a shell must replace variables in the program, or in the flags that the result keeps.
func (l *launch) needsShell() bool {
	kept := []string{strings.ReplaceAll(l.nodes, worldSize, ""), l.procs, l.backend, l.maxRestarts}
	return hasReference(kept) || hasReference(l.options) || hasReference(l.program)
}

// hasReference reports whether one of the words refers to a variable.
func hasReference(words []string) bool { return slices.ContainsFunc(words, reference.MatchString) }

// isSame reports whether two replicas run torchrun with the same flags. It ignores flags that the result leaves out.
func (l *launch) isSame(other *launch) bool {
	return l.nodes == other.nodes && l.procs == other.procs && l.backend == other.backend &&
		l.endpoint == other.endpoint && l.maxRestarts == other.maxRestarts && l.standalone == other.standalone &&
		l.passesLocalRank == other.passesLocalRank && slices.Equal(l.options, other.options)
}
