package conformance

import (
	"slices"
	"time"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/model"
)

// deviceScenarios are scenarios in which devices fail.
var deviceScenarios = []scenario{
	{
		name:  "an unhealthy device restarts all replicas of a collective once, and the restart does not count",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{
			run, passes(10 * time.Second), losesDevice(1), hasDevices("1"), isReplaced, run, passes(time.Hour), exits(1, 0),
			exits(0, 0),
		},
		want: bothSucceed(2, "1 DeviceUnhealthy 0 false"),
	},
	{
		name:  "an unhealthy device of the leader restarts only the leader, if replicas restart alone",
		shape: two(onFailure, scopeReplica, limit(0)),
		steps: []step{
			run, marks(1), passes(10 * time.Second), losesDevice(0), keepsMarked, isReplaced, run, keepsMarked, exits(1, 0),
			exits(0, 0),
		},
		want: bothSucceed(1, "0 DeviceUnhealthy 0 false"),
	},
	{
		name:  "a device that is healthy again before the controller sees it restarts nothing",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{
			run, marks(0, 1), passes(10 * time.Second), together(losesDevice(1), getsDeviceBack(1)), keepsMarked, exits(1, 0),
			exits(0, 0),
		},
		want: bothSucceed(0, ""),
	},
	{
		name:  "a device whose health is unknown restarts nothing",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{
			run, marks(0, 1), passes(10 * time.Second), forgetsDevice(1), passes(time.Hour), keepsMarked, exits(1, 0),
			exits(0, 0),
		},
		want: bothSucceed(0, ""),
	},
	{
		name:  "a replica that never restarts goes on with an unhealthy device",
		shape: two(never, scopeJob),
		steps: []step{
			run, marks(0, 1), passes(10 * time.Second), losesDevice(1), losesDevice(0), passes(time.Hour), keepsMarked,
			stands(batchv1beta1.JobPhaseRunning), exits(1, 0), exits(0, 0),
		},
		want: bothSucceed(0, ""),
	},
	{
		name:  "a replica that never restarts stays failed if its program exits because of an unhealthy device",
		shape: two(never, scopeReplica),
		steps: []step{
			run, passes(10 * time.Second), losesDevice(1), exits(1, 1), stands(batchv1beta1.JobPhaseRunning), hasDevices("1"),
			exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Pods: []string{"0 Succeeded", "1 Failed"},
			Failure: "1 DeviceUnhealthy 1 false",
		},
	},
	{
		name:  "a job in debug mode goes on with an unhealthy device",
		shape: model.Debugging(two(onFailure, scopeJob, limit(0))),
		steps: []step{
			run, marks(0, 1), passes(10 * time.Second), losesDevice(1), passes(time.Hour), keepsMarked, exits(1, 0),
			exits(0, 0),
		},
		want: bothSucceed(0, ""),
	},
	{
		name:  "the exit of a program whose device is unhealthy does not count",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{
			run, passes(10 * time.Second), together(losesDevice(1), exits(1, 1)), hasDevices("1"), isReplaced, run,
			exits(1, 0),
			exits(0, 0),
		},
		want: bothSucceed(2, "1 DeviceUnhealthy 1 false"),
	},
	{
		name:  "the failures of peers that follow from an unhealthy device do not count",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{
			run, passes(10 * time.Second), together(losesDevice(1), exits(0, 1)), isReplaced, run, exits(1, 0), exits(0, 0),
		},
		want: bothSucceed(2, "1 DeviceUnhealthy 0 false"),
	},
	{
		name:  "a program that exceeds its memory limit while its device is unhealthy counts",
		shape: two(onFailure, scopeJob),
		steps: []step{
			run, passes(10 * time.Second), together(losesDevice(1), ranOutOfMemory(1)), run, exits(1, 0), exits(0, 0),
		},
		want: result{
			Phase: "Succeeded", Reason: "LeaderSucceeded", Backoff: 1, Restarts: 2, Failure: "1 OOMKilled 137 true",
			Pods: []string{"0 Succeeded", "1 Succeeded"},
		},
	},
	{
		name:  "a job succeeds although a device is unhealthy when its leader ends",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{run, passes(10 * time.Second), together(losesDevice(0), exits(1, 0), exits(0, 0))},
		want:  bothSucceed(0, ""),
	},
	{
		name:  "an eviction because of the taint of a device restarts all replicas, and the restart does not count",
		shape: two(onFailure, scopeJob, limit(0)),
		steps: []step{run, passes(10 * time.Second), hasTaintedDevice(1), run, exits(1, 0), exits(0, 0)},
		want:  bothSucceed(2, "1 DeviceTainted 0 false"),
	},
}

// bothSucceed returns the expected result of a job with two replicas that succeed. No failure counts. The parameter
// failure is the newest failure, which is ignored.
func bothSucceed(restarts int32, failure string) result {
	return result{
		Phase: "Succeeded", Reason: "LeaderSucceeded", Restarts: restarts, Failure: failure,
		Pods: []string{"0 Succeeded", "1 Succeeded"},
	}
}

// isReplaced is a step in which enough time passes for the restart after an unhealthy device.
func isReplaced(w *world) { passes(20 * time.Second)(w) }

// losesDevice returns a step in which the device of a replica becomes unhealthy.
func losesDevice(index int) step { return happensTo(index, model.LosesItsDevice) }

// forgetsDevice returns a step in which the health of the device of a replica becomes unknown.
func forgetsDevice(index int) step { return happensTo(index, model.ForgetsItsDevice) }

// getsDeviceBack returns a step in which the device of a replica becomes healthy.
func getsDeviceBack(index int) step { return happensTo(index, model.GetsItsDeviceBack) }

// hasTaintedDevice returns a step in which the pod of a replica is evicted because its device has a taint.
func hasTaintedDevice(index int) step { return happensTo(index, model.HasTaintedDevice) }

// hasDevices returns a step that checks that the newest failure is of the given replica and names the device of the
// replica's pod.
func hasDevices(index string) step {
	return func(w *world) {
		w.t.Helper()
		want := []batchv1beta1.UnhealthyDevice{{Resource: string(model.DeviceResource), ID: string(model.DeviceID)}}
		failures := w.status().Failures
		if len(failures) == 0 || !slices.Equal(failures[0].Devices, want) ||
			failures[0].Replica[len(failures[0].Replica)-1:] != index {
			w.t.Errorf("the failures are %+v, want the newest of replica %s with the devices %+v", failures, index, want)
		}
	}
}
