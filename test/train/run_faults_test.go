package train

import (
	"context"
	"os/exec"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/test/internal/faults"
)

// writesOfRun is the number of writes of kubectl train run if the code fits into a ConfigMap. The command creates the
// job, creates the ConfigMap, and starts the job.
const writesOfRun = 3

var _ = Describe("kubectl train run, at each write", func() {
	for write := 1; write <= writesOfRun; write++ {
		It(nth(write)+" fails: it leaves nothing", func(ctx context.Context) {
			n := newNamespace(ctx)
			_, _, err := n.train(ctx, n.through(at(write, faults.Fail), n.digits("--detach"))...)
			Expect(err).To(MatchError(ContainSubstring("the proxy has a fault")))
			if write == 1 { // after the error, the API server can still create the job
				Expect(err).To(MatchError(ContainSubstring(
					"ptjob/digits in namespace " + string(n) + " does not exist now. If the API server")))
			}
			n.collectGarbage(ctx)
			Expect(n.objects(ctx)).To(BeEmpty())
		})

		It(nth(write)+" loses its answer: it leaves nothing, unless the job runs", func(ctx context.Context) {
			n := newNamespace(ctx)
			_, _, err := n.train(ctx, n.through(at(write, faults.Lose), n.digits("--detach"))...)
			if write == writesOfRun {
				Expect(err).NotTo(HaveOccurred())
				n.run(ctx, "digits-worker-0")
				return
			}
			Expect(err).To(MatchError(HaveSuffix("Nothing is left: the job is deleted with everything that it owns")))
			n.collectGarbage(ctx)
			Expect(n.objects(ctx)).To(BeEmpty())
		})

		It(nth(write)+" and all later requests fail: it names the job that is left", func(ctx context.Context) {
			n := newNamespace(ctx)
			_, _, err := n.train(ctx, n.through(at(write, faults.Down), n.digits("--detach"))...)
			if write == 1 { // the command cannot know whether the request or its answer was lost
				Expect(err).To(MatchError(ContainSubstring(
					"It is not known whether ptjob/digits in namespace " + string(n) + " exists now")))
				Expect(n.objects(ctx)).To(BeEmpty())
				return
			}
			Expect(err).To(MatchError(And(
				ContainSubstring("ptjob/digits in namespace "+string(n)+" is left, and cannot be deleted"),
				MatchRegexp("kubectl train delete ptjob/digits .* deletes it with everything that it owns$"))))
			n.isPrepared(ctx)
		})

		It(nth(write)+" is interrupted: it leaves nothing, unless the job runs", func(ctx context.Context) {
			n := newNamespace(ctx)
			interrupted, interrupt := context.WithCancel(ctx)
			defer interrupt()
			_, errOut, err := n.train(interrupted, n.through(&faults.Proxy{Before: func(number int, _ string) faults.Fault {
				if number == write {
					interrupt()
				}
				return faults.None
			}}, n.digits())...)
			Expect(err).To(MatchError(HavePrefix("interrupted")))
			if write == writesOfRun {
				Expect(errOut).To(ContainSubstring("ptjob/digits goes on"))
				n.run(ctx, "digits-worker-0")
				return
			}
			Expect(errOut).To(HaveSuffix("Interrupted: deleting ptjob/digits.\n"))
			n.collectGarbage(ctx)
			Expect(n.objects(ctx)).To(BeEmpty())
		})

		for _, reaches := range []bool{false, true} {
			name := nth(write) + " is the last before kill -9"
			if reaches {
				name += ", and reaches the API server"
			}
			It(name+": it leaves nothing, a paused job that owns everything, or a job that runs", func(ctx context.Context) {
				n := newNamespace(ctx)
				n.killed(ctx, write, reaches, n.digits())
				writes := write
				if !reaches {
					writes--
				}
				switch writes {
				case 0:
					Expect(n.objects(ctx)).To(BeEmpty())
				case writesOfRun:
					n.run(ctx, "digits-worker-0")
				default:
					n.isPrepared(ctx)
				}
			})
		}
	}

	It("has these writes and no others", func(ctx context.Context) {
		n := newNamespace(ctx)
		proxy := &faults.Proxy{}
		_, _, err := n.train(ctx, n.through(proxy, n.digits("--detach"))...)
		Expect(err).NotTo(HaveOccurred())
		Expect(proxy.Writes()).To(HaveLen(writesOfRun))
	})
})

func nth(write int) string { return "write " + string(rune('0'+write)) }

// at returns a proxy with a fault at one write.
func at(write int, fault faults.Fault) *faults.Proxy {
	return &faults.Proxy{Before: func(number int, _ string) faults.Fault {
		if number == write {
			return fault
		}
		return faults.None
	}}
}

// through starts a proxy, and returns the arguments of a command that sends its requests through the proxy.
func (namespace) through(proxy *faults.Proxy, args []string) []string {
	GinkgoHelper()
	proxy.Start(GinkgoTB(), config)
	return append([]string{"--kubeconfig", proxy.Kubeconfig(GinkgoTB())}, args...)
}

// isPrepared expects a paused job that lacks its code, and that owns all other objects of the namespace. It deletes
// the job, and expects that nothing is left.
func (n namespace) isPrepared(ctx context.Context) {
	GinkgoHelper()
	job := n.job(ctx, "digits")
	Expect(job.Spec().RunMode.Pausing()).To(BeTrue(), "the job is paused")
	Expect(job.GetAnnotations()).To(HaveKey("train.tensorstack.dev/preparing"))
	Eventually(ctx, func() (string, error) {
		out, _, err := n.train(ctx, "list")
		return out, err
	}).Should(MatchRegexp(`(?m)^ptjob/digits +Paused `))
	_, _, err := n.train(ctx, n.digits("--detach")...)
	Expect(err).To(MatchError(HaveSuffix("kubectl train delete " + n.typed("ptjob/digits") + " deletes it")))
	_, _, err = n.train(ctx, "resume", "digits")
	Expect(err).To(MatchError(HavePrefix("ptjob/digits does not have its code yet")))

	Expect(api.Delete(ctx, job.Job, client.PropagationPolicy("Background"))).To(Succeed())
	n.collectGarbage(ctx)
	Expect(n.objects(ctx)).To(BeEmpty())
}

// killed runs the program until a write, and kills it either before or after the write reaches the API server.
func (n namespace) killed(ctx context.Context, write int, reaches bool, args []string) {
	GinkgoHelper()
	var command *exec.Cmd
	kill := func(number int) bool {
		if number != write {
			return false
		}
		_ = command.Process.Signal(syscall.SIGKILL)
		return true
	}
	proxy := &faults.Proxy{
		Before: func(number int, _ string) faults.Fault {
			if !reaches && kill(number) {
				return faults.Down
			}
			return faults.None
		},
		After: func(number int, _ string) {
			if reaches {
				kill(number)
			}
		},
	}
	args = append([]string{"--namespace", string(n)}, args...)
	command = program(ctx, n.through(proxy, args)...)
	output, err := command.CombinedOutput()
	Expect(err).To(MatchError("signal: killed"), "%s", output)
}
