package agent

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// How the ssh client learns what launch was told by flags.
const (
	envKey    = "T9K_SSH_KEY"
	envPort   = "T9K_SSH_PORT"
	envSocket = "T9K_LAUNCH_SOCKET"
)

// printedByLauncher are beginnings of names. DeepSpeed's launcher (0.9 to 0.19) exports these variables on the command
// line of each host, which it logs. PYTHON is one of them too, but the launcher needs it itself.
var printedByLauncher = []string{
	"MLFLOW", "MV2", "NCCL", "UCX",
	"AML_RUN_ID", "AZUREML", "DLTS_", "FC_TASK", "LOCAL_HOST", "MASTER_HOST", "NEBULA",
}

// without returns the environment without the variables whose names are to be dropped.
func without(environment []string, drop func(name string) bool) []string {
	return slices.DeleteFunc(slices.Clone(environment), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return drop(name)
	})
}

// sessionEnvironment is what the training processes get.
func (o *options) sessionEnvironment() []string {
	return without(o.environment, func(name string) bool { return slices.Contains(o.withoutEnv, name) })
}

// launcherEnvironment is what the launcher gets: nothing secret that it would print, and our ssh before any other.
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
