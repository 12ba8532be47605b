package pytorch

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/framework"
)

// starter is a program that starts the processes of a replica, such as torchrun. If its command line does not match
// the pattern in options, the program starts a training in which the other replicas do not take part.
type starter struct {
	name    string
	command *regexp.Regexp
	options *regexp.Regexp
	advice  string
}

// commandStart matches the text before the name of a program that a command line runs.
const commandStart = `(?:^|[;&|(\n]\s*|\s-\w*c\s+|\bexec\s+)(?:\w+=\S*\s+)*(?:\S*/)?`

var starters = []starter{
	{
		name:    "torchrun",
		command: regexp.MustCompile(`(?:` + commandStart + `torchrun|\s-m\s+torch\.distributed\.(?:run|launch))\s`),
		options: regexp.MustCompile(`--(?:nnodes|node[_-]rank|standalone)\b|\bPET_`),
		advice:  "use spec.torchrunConfig, or pass --nnodes",
	},
	{
		name:    "accelerate launch",
		command: regexp.MustCompile(commandStart + `accelerate\s+launch\s`),
		options: regexp.MustCompile(
			`--(?:num[_-]machines|machine[_-]rank|main[_-]process[_-]ip|config[_-]file)\b|\bACCELERATE_`),
		advice: "use spec.torchrunConfig instead, or pass --num_machines=$(WORLD_SIZE), --machine_rank=$(RANK), " +
			"--main_process_ip=$(MASTER_ADDR) and --main_process_port=$(MASTER_PORT)",
	},
}

// variableWord matches a shell variable at the beginning of a word of a command line. The value of the variable can
// be any option, so noticeAlone returns no notice about such a command line.
var variableWord = regexp.MustCompile(`[ "']\$`)

// maxCommand is the maximum size, in bytes, of a command line in which noticeAlone looks for a starter. The limit
// matters because each reconcile of a job searches all of its command lines.
const maxCommand = 4 << 10

// noticeAlone returns a notice about a job without torchrunConfig if a command shows that each replica trains alone.
// Otherwise, the notice is empty.
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
		line := commandLine(*main)
		for _, s := range starters {
			if s.command.MatchString(line) && !s.options.MatchString(line) && !variableWord.MatchString(line) {
				return fmt.Sprintf("the number of replicas has no effect on the training, since %s of type %s gets no number "+
					"of replicas, and each replica trains alone: %s", s.name, role.Type, s.advice)
			}
		}
	}
	return ""
}

// commandLine returns the command and the arguments of a container. The result is empty if they are too long to be
// searched.
func commandLine(main corev1.Container) string {
	words := slices.Concat(main.Command, main.Args)
	size := 0
	for _, word := range words {
		if size += len(word) + 1; size > maxCommand {
			return ""
		}
	}
	return strings.Join(words, " ")
}

// hasOptionsInEnvironment reports whether variables of a container can have options of torchrun.
func hasOptionsInEnvironment(main corev1.Container) bool {
	return len(main.EnvFrom) > 0 ||
		slices.ContainsFunc(main.Env, func(v corev1.EnvVar) bool { return strings.HasPrefix(v.Name, "PET_") })
}
