package convert

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	deepspeedv1beta1 "tensorstack.dev/jobs/deepspeed/api/v1beta1"
)

// deepSpeedFlags are the flags of the launcher deepspeed. The value is true if the flag needs an argument.
var deepSpeedFlags = map[string]bool{
	"H": true, "hostfile": true, "i": true, "include": true, "e": true, "exclude": true,
	"num_nodes": true, "num_gpus": true, "master_port": true, "master_addr": true, "node_rank": true,
	"launcher": true, "launcher_args": true, "autotuning": true, "enable_each_rank_log": true, "bind_core_list": true,
	"min_elastic_nodes": true, "max_elastic_nodes": true, "ssh_port": true, "venv_script": true,
	"module": false, "no_python": false, "no_local_rank": false, "no_ssh": false, "no_ssh_check": false,
	"force_multi": false, "save_pid": false, "elastic_training": false, "bind_cores_to_rank": false,
}

// supersededByController are the flags that the result leaves out, because the controller or another field of the job
// replaces them.
var supersededByController = []string{
	"H", "hostfile", "i", "include", "e", "exclude", "master_addr", "node_rank", "launcher", "launcher_args",
	"force_multi", "no_ssh", "no_ssh_check", "ssh_port", "elastic_training", "min_elastic_nodes", "max_elastic_nodes",
}

// parseDeepSpeed reads the flags of the launcher deepspeed and the program after them. It also returns the flags of
// supersededByController that it finds.
func parseDeepSpeed(words []string) (config *deepspeedv1beta1.Config, superseded []string, err error) {
	config = &deepspeedv1beta1.Config{}
	isModule, isExecutable := false, false
	for i := 0; i < len(words); i++ {
		if !strings.HasPrefix(words[i], "-") {
			program := words[i:]
			config.Run = &deepspeedv1beta1.RunType{Python: program}
			switch {
			case isModule:
				config.Run = &deepspeedv1beta1.RunType{Module: program}
			case isExecutable:
				config.Run = &deepspeedv1beta1.RunType{Exec: program}
			}
			return config, superseded, nil
		}
		name, value, hasValue := strings.Cut(strings.TrimLeft(words[i], "-"), "=")
		needsValue, known := deepSpeedFlags[name]
		original := words[i : i+1]
		switch {
		case !known && !hasValue:
			return nil, nil, fmt.Errorf("the flag %s is none that deepspeed is known to have", words[i])
		case needsValue && !hasValue && i+1 == len(words):
			return nil, nil, fmt.Errorf("the flag %s of deepspeed has no value", words[i])
		case needsValue && !hasValue:
			i++
			value, original = words[i], words[i-1:i+1]
		}
		switch {
		case name == "module":
			isModule = true
		case name == "no_python":
			isExecutable = true
		case name == "no_local_rank":
			config.LocalRank = new(bool)
		case name == "autotuning":
			config.Autotune = deepspeedv1beta1.AutotuneType(value)
		case slices.Contains(supersededByController, name):
			superseded = append(superseded, strings.Join(original, " "))
		default:
			config.OtherArgs = append(config.OtherArgs, original...)
		}
	}
	return nil, nil, errors.New("deepspeed has no script")
}
