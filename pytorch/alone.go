package pytorch

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/framework"
)

// starter is a program that starts the processes of a replica. Without one of the options, it starts a training that
// the other replicas have no part in.
type starter struct {
	name    string
	command *regexp.Regexp
	options *regexp.Regexp
	advice  string
}

var starters = []starter{
	{
		name: "torchrun", command: regexp.MustCompile(`\b(torchrun|torch\.distributed\.(run|launch)) `),
		options: regexp.MustCompile(`--(nnodes|standalone)\b`),
		advice:  "use spec.torchrunConfig, or pass --nnodes",
	},
	{
		name: "accelerate launch", command: regexp.MustCompile(`\baccelerate launch `),
		options: regexp.MustCompile(`--(num[_-]machines|config[_-]file)\b`),
		advice: "use spec.torchrunConfig instead, or pass --num_machines=$(WORLD_SIZE), --machine_rank=$(RANK), " +
			"--main_process_ip=$(MASTER_ADDR) and --main_process_port=$(MASTER_PORT)",
	},
}

// variableWord matches a word of a command line that is a variable of a shell, and can have any option.
var variableWord = regexp.MustCompile(`[ "']\$`)

// noticeAlone returns a notice if the replicas of a job without torchrunConfig train alone, as far as their commands
// show it. Otherwise, it is empty.
func noticeAlone(roles []framework.Role) string {
	var replicas int32
	for _, role := range roles {
		replicas += role.Replicas
	}
	if replicas < 2 {
		return ""
	}
	for _, role := range roles {
		main := framework.MainContainer(pytorch{}.MainContainers(), role.Template.Spec.Containers)
		if main == nil || hasOptionsInEnvironment(*main) {
			continue
		}
		line := strings.Join(slices.Concat(main.Command, main.Args), " ")
		for _, s := range starters {
			if s.command.MatchString(line) && !s.options.MatchString(line) && !variableWord.MatchString(line) {
				return fmt.Sprintf("the number of replicas has no effect on the training, since %s of type %s gets no number "+
					"of replicas, and each replica trains alone: %s", s.name, role.Type, s.advice)
			}
		}
	}
	return ""
}

// hasOptionsInEnvironment reports whether variables of a container can have options of torchrun.
func hasOptionsInEnvironment(main corev1.Container) bool {
	if len(main.EnvFrom) > 0 {
		return true
	}
	for _, variable := range main.Env {
		if strings.HasPrefix(variable.Name, "PET_") {
			return true
		}
	}
	return false
}
