package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// In each spec, a rank fails during a collective operation, and its failure makes the other ranks fail. All replicas
// end within the same second. With torchrun, all of them have exit code 1. $CAUSE_TIMES is the number of times that
// each combination of launcher, rank and kind of failure runs. The default is 1.
var _ = Describe("The rank that failed first", Label("cause"), func() {
	const (
		plain     = "plain"
		torchrun  = "torchrun"
		static    = "static torchrun"
		deepspeed = "DeepSpeed"
	)
	for _, launcher := range []string{plain, torchrun, deepspeed} {
		ranks := map[string]int{plain: 2, torchrun: 4, deepspeed: 4}[launcher]
		for rank := range ranks {
			for _, way := range []string{"SIGKILL", "exception", "3"} {
				for range times("CAUSE_TIMES") {
					name := fmt.Sprintf("is reported with its replica when rank %d of a %s job fails (%s)", rank, launcher, way)
					It(name, Label("cause-"+strings.ToLower(launcher)), func(ctx context.Context) {
						n := newNamespace(ctx)
						kind := n.startFailing(ctx, launcher, rank, "OnFailure", 0, way)
						f := n.failureAtRank(ctx, kind, launcher)
						fails := regexp.MustCompile(fmt.Sprintf(`rank %d fails on (\S+)`, rank))
						victim := fails.FindStringSubmatch(f.logs)
						Expect(victim).NotTo(BeNil(), "the logs do not show where the rank failed: %s", f.logs)
						AddReportEntry("reported", fmt.Sprintf("%s, on %s", f, victim[1]))
						Expect(f.replica).To(Equal(victim[1]))
						Expect(f.condition).To(ContainSubstring(victim[1]))
						switch way {
						case "exception":
							// Only the message of the exception shows which rank raised the exception, and the oldest version of torch
							// does not write the rank into the message. With this version, the job may report no rank.
							if trainsWithOldest() {
								Expect(f.rank).To(BeElementOf("", strconv.Itoa(rank)))
							} else {
								Expect(f.rank).To(Equal(strconv.Itoa(rank)))
							}
							Expect(f.message).To(ContainSubstring("ValueError: the data has no labels"))
						default:
							Expect(f.rank).To(Equal(strconv.Itoa(rank)))
							Expect(f.condition).To(ContainSubstring("rank " + f.rank))
							Expect(f.end).To(Equal(way))
						}
						Expect(f.message).NotTo(ContainSubstring("onnection closed by peer"))
					})
				}
			}
		}
	}

	// A launcher does not exit with the exit code of the rank that failed, but the restart policy must use the exit code
	// of this rank.
	for _, launcher := range []string{torchrun, static, deepspeed} {
		name := "is what restart policy ExitCode restarts or not, with " + launcher
		It(name, Label("cause-restart"), func(ctx context.Context) {
			n := newNamespace(ctx)
			kind := n.startFailing(ctx, launcher, 3, "ExitCode", 5, "138,SIGKILL,3")
			n.kubectl(ctx, "wait", "--for=condition=Failed", kind+"/fails", timeout)
			status := func(path string) func() (string, error) {
				return n.output(ctx, "get", kind, "fails", "-o", "jsonpath={.status."+path+"}")
			}
			Eventually(ctx, n.output(ctx, "get", kind, "fails", "-o",
				`jsonpath={range .status.failures[*]}{.rank}: {.rankSignal}{.rankExitCode}{"\n"}{end}`)).
				Should(Equal("3: 3\n3: SIGKILL\n3: 138"), "the latest failure is the first")
			Eventually(ctx, status("backoffCount")).Should(Equal("2"))
			Eventually(ctx, status("reason")).Should(Equal("PermanentFailure"))
			Eventually(ctx, status("conditions[?(@.type=='Failed')].message")).Should(
				MatchRegexp("rank 3.* ended with exit code 3, which restart policy ExitCode does not restart"))
		})
	}
})

// times returns the number in an environment variable, or 1 if the variable is not set.
func times(variable string) int {
	value := os.Getenv(variable)
	if value == "" {
		return 1
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		panic(fmt.Sprintf("%s must be a number: %v", variable, err))
	}
	return n
}

// failureAtRank is the failure as the status of the job reports it, with the logs of all pods. The field end is the
// signal or the exit code of the rank's process.
type failureAtRank struct{ replica, rank, end, message, condition, logs string }

func (f failureAtRank) String() string {
	return fmt.Sprintf("replica %s, rank %s, ended by %s", f.replica, f.rank, f.end)
}

// startFailing starts a job with two replicas in which one rank fails, and returns the kind of the job. The parameter
// ways is a comma-separated list of the ways in which the rank fails, one for each attempt.
func (n namespace) startFailing(
	ctx context.Context, launcher string, rank int, restartPolicy string, backoffLimit int, ways string,
) (kind string) {
	GinkgoHelper()
	waitLonger(3) // two replicas with two processes each start together
	n.kubectl(ctx, "create", "configmap", "code", "--from-file=train.py=test/e2e/testdata/fails.py")
	template := fmt.Sprintf(`
        spec:
          shareProcessNamespace: true # so that the first process of the container can be killed
          terminationGracePeriodSeconds: 2
          containers:
            - name: main
              image: %%s
              %%s
              env:
                - {name: OMP_NUM_THREADS, value: "1"}
                - {name: VICTIM, value: "%d"}
                - {name: WAYS, value: "%s"}
                - {name: ATTEMPT, valueFrom: {fieldRef: {fieldPath: "metadata.labels['batch.tensorstack.dev/attempt']"}}}
              volumeMounts:
                - {name: code, mountPath: /code}
          volumes:
            - {name: code, configMap: {name: code}}
`, rank, ways)
	pytorch := func(config, command string) string {
		return fmt.Sprintf(`
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata:
  name: fails
spec:
  runPolicy: {backoffLimit: %d, cleanUpPolicy: None}
  %s
  replicaSpecs:
    - type: worker
      replicas: 2
      restartPolicy: %s
      template: %s`, backoffLimit, config, restartPolicy,
			fmt.Sprintf(template, "tensorstack/pytorch-example:2.6.0", command))
	}
	kind = "ptjob"
	var manifest string
	switch launcher {
	case "torchrun":
		manifest = pytorch(`torchrunConfig: {enabled: true, procPerNode: "2", maxRestarts: 0}`, "args: [/code/train.py]")
	case "static torchrun":
		manifest = pytorch("", "command: [torchrun, --nnodes=2, --nproc_per_node=2, --node_rank=$(RANK), "+
			"--master_addr=$(MASTER_ADDR), --master_port=$(MASTER_PORT), /code/train.py]")
	case "DeepSpeed":
		kind = "dsjob"
		manifest = fmt.Sprintf(`
apiVersion: batch.tensorstack.dev/v1beta1
kind: DeepSpeedJob
metadata:
  name: fails
spec:
  runPolicy: {backoffLimit: %d, cleanUpPolicy: None}
  config:
    slotsPerWorker: 2
    run:
      python: [/code/train.py]
  worker:
      replicas: 2
      restartPolicy: %s
      template: %s`, backoffLimit, restartPolicy, fmt.Sprintf(template, "tensorstack/deepspeed-example:0.19.8", ""))
	default:
		manifest = pytorch("", "command: [python3, /code/train.py]")
	}
	n.kubectlWith(ctx, manifest, "apply", "-f", "-")
	return kind
}

// failureAtRank waits until the job of startFailing has failed, and returns the failure that the job reports.
func (n namespace) failureAtRank(ctx context.Context, kind, launcher string) failureAtRank {
	GinkgoHelper()
	n.kubectl(ctx, "wait", "--for=condition=Failed", kind+"/fails", timeout)
	field := func(path string) func() (string, error) {
		return n.output(ctx, "get", kind, "fails", "-o", "jsonpath={.status."+path+"}")
	}
	f := failureAtRank{
		replica: now(field("failures[0].replica")), rank: now(field("failures[0].rank")),
		end:       now(field("failures[0].rankSignal")) + now(field("failures[0].rankExitCode")),
		message:   now(field("failures[0].message")),
		condition: now(field("conditions[?(@.type=='Failed')].message")),
	}
	if launcher == "plain" { // without a launcher, the replica has the exit code of the rank
		code := now(field("failures[0].exitCode"))
		f.end = cmp.Or(map[string]string{"137": "SIGKILL"}[code], code)
	}
	for _, pod := range now(n.names(ctx, "pods")) {
		f.logs += now(n.output(ctx, "logs", pod, "-c", "main")) + "\n"
	}
	return f
}
