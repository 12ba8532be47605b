package agent

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Environment variables by which the subcommand launch passes its settings to the ssh client.
const (
	envKey    = "T9K_SSH_KEY"
	envPort   = "T9K_SSH_PORT"
	envSocket = "T9K_LAUNCH_SOCKET"
)

// printedByLauncher are prefixes of variable names. DeepSpeed's launcher (0.9 to 0.19) exports variables with these
// prefixes in the command line for each host, and logs the command line. PYTHON is also such a prefix, but it is not
// listed, because the launcher itself needs the variables with this prefix.
var printedByLauncher = []string{
	"MLFLOW", "MV2", "NCCL", "UCX",
	"AML_RUN_ID", "AZUREML", "DLTS_", "FC_TASK", "LOCAL_HOST", "MASTER_HOST", "NEBULA",
}

// without returns a copy of the environment. It leaves out each variable if the function drop returns true for the
// name of the variable.
func without(environment []string, drop func(name string) bool) []string {
	return slices.DeleteFunc(slices.Clone(environment), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return drop(name)
	})
}

// sessionEnvironment returns the environment of the training processes.
func (o *options) sessionEnvironment() []string {
	return without(o.environment, func(name string) bool { return slices.Contains(o.withoutEnv, name) })
}

// launcherEnvironment returns the environment of the launcher. It contains no secret that the launcher would print, and
// our ssh comes first in its PATH.
func (o *options) launcherEnvironment() []string {
	path := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	environment := without(o.environment, func(name string) bool {
		own := []string{envKey, envPort, EnvAddresses, envSocket}
		return slices.Contains(o.secretEnv, name) || slices.Contains(own, name) ||
			slices.ContainsFunc(printedByLauncher, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
	for _, variable := range environment {
		if value, ok := strings.CutPrefix(variable, "PATH="); ok {
			path = value
		}
	}
	environment = without(environment, func(name string) bool { return name == "PATH" })
	environment = append(environment,
		"PATH="+o.folder+string(filepath.ListSeparator)+path, envKey+"="+o.key, envPort+"="+strconv.Itoa(o.port))
	if o.firstPort != 0 {
		environment = append(environment, EnvAddresses+"="+Addresses(o.host, o.firstPort))
	}
	return environment
}
