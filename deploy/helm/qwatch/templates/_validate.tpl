{{/* What a schema cannot say. Every fault is told at once. */}}
{{- define "qwatch.validate" -}}
{{- $root := . -}}{{- $faults := list -}}
{{- $own := not .Values.existingConfig.name -}}
{{- $accounts := list -}}
{{- range .Values.config.accounts -}}{{- $accounts = append $accounts .name -}}{{- end -}}
{{- if and $own (not $accounts) -}}
{{- $faults = append $faults "config.accounts is empty: name at least one storage account, or set existingConfig.name" -}}
{{- end -}}
{{- if not (or .Values.watcher.enabled .Values.consumers) -}}
{{- $faults = append $faults "watcher.enabled is false and there are no consumers: nothing would be installed" -}}
{{- end -}}
{{- range $i, $a := .Values.config.accounts -}}
{{- range $key, $value := $a -}}
{{- if kindIs "string" $value -}}
{{- $secret := has $key (list "connectionString" "sas" "accountKey") -}}
{{- $plain := include "qwatch.plain" $value -}}
{{- if and $secret $value (ne $value "UseDevelopmentStorage=true") (or $plain (not (contains "${" $value)) (and (eq $key "accountKey") (not (regexMatch "^\\$\\{[^{}]+\\}$" $value)))) -}}
{{- $faults = append $faults (printf "config.accounts[%d].%s is a secret in plain text, which would land in a ConfigMap: write ${NAME} and set NAME with env or envFrom, or use %sFile with extraVolumes" $i $key $key) -}}
{{- else if $plain -}}
{{- $faults = append $faults (printf "config.accounts[%d].%s has a secret in plain text after %s, which would land in a ConfigMap: write ${NAME} there and set NAME with env or envFrom" $i $key $plain) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with include "qwatch.plain" (toRawJson (pick $a "queues" "discovery")) -}}
{{- $faults = append $faults (printf "config.accounts[%d].queues has a secret in plain text after %s, which would land in a ConfigMap: write ${NAME} there and set NAME with env or envFrom" $i .) -}}
{{- end -}}
{{- end -}}
{{- with include "qwatch.plain" (toRawJson (omit .Values.config "accounts")) -}}
{{- $faults = append $faults (printf "config has a secret in plain text after %s, which would land in a ConfigMap: write ${NAME} there and set NAME with env or envFrom" .) -}}
{{- end -}}
{{- range $where, $variables := include "qwatch.environments" . | fromJson -}}
{{- range $i, $variable := $variables -}}
{{- with include "qwatch.plainVariable" (get $variable "value" | default "") -}}
{{- $faults = append $faults (printf "%s[%d] (%s) has %s in plain text, which everybody who may read pods would see: take it from a Secret, with valueFrom: {secretKeyRef: {name: …, key: …}} or envFrom" $where $i $variable.name .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $full := include "qwatch.fullname" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $full) -}}
{{- $faults = append $faults (printf "the full name %q cannot be that of a service: set fullnameOverride to lower-case letters, digits and hyphens that begin with a letter" $full) -}}
{{- end -}}
{{- $fixed := list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "helm.sh/chart" "qwatch/group" "qwatch/scrape" -}}
{{- if .Values.workloadIdentity.enabled -}}{{- $fixed = append $fixed "azure.workload.identity/use" -}}{{- end -}}
{{- $m := .Values.monitoring -}}
{{- $labels := dict "commonLabels" .Values.commonLabels "watcher.podLabels" .Values.watcher.podLabels "monitoring.serviceMonitor.labels" $m.serviceMonitor.labels "monitoring.podMonitor.labels" $m.podMonitor.labels "monitoring.prometheusRule.labels" $m.prometheusRule.labels "monitoring.dashboards.labels" $m.dashboards.labels -}}
{{- range $name, $_ := .Values.consumers -}}
{{- $_ := set $labels (printf "consumers.%s.podLabels" $name) (include "qwatch.group" (list $root $name) | fromJson).podLabels -}}
{{- end -}}
{{- range $where, $given := $labels -}}
{{- range $key, $_ := $given -}}
{{- if has $key $fixed -}}
{{- $faults = append $faults (printf "%s: the label %s is set by the chart, whose selectors rely on it: remove it" $where $key) -}}
{{- else if and (ne $where "commonLabels") (hasKey $root.Values.commonLabels $key) -}}
{{- $faults = append $faults (printf "%s: the label %s is in commonLabels already: keep one" $where $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $server := get .Values.config "server" | default dict -}}
{{- range list "listen" "probes" "grpc" -}}
{{- if hasKey $server . -}}
{{- $faults = append $faults (printf "config.server.%s is set by the chart, whose services and probes rely on it: remove it" .) -}}
{{- end -}}
{{- end -}}
{{- $watch := get .Values.config "watch" | default dict -}}
{{- range list "mode" "leader" "shard" -}}
{{- if hasKey $watch . -}}
{{- $faults = append $faults (printf "config.watch.%s is set by the chart: use watcher.mode and watcher.replicas instead" .) -}}
{{- end -}}
{{- end -}}
{{- if and (eq .Values.watcher.mode "single") (gt (int .Values.watcher.replicas) 1) -}}
{{- $faults = append $faults "watcher.replicas is above 1 with watcher.mode single, so that each would watch everything: set watcher.replicas to 1, or use leader or shard" -}}
{{- end -}}
{{- if and .Values.monitoring.serviceMonitor.enabled .Values.monitoring.podMonitor.enabled -}}
{{- $faults = append $faults "monitoring.serviceMonitor and monitoring.podMonitor are both enabled, so that every pod would be scraped twice: keep one" -}}
{{- end -}}
{{- if and .Values.workloadIdentity.enabled .Values.serviceAccount.create (not .Values.workloadIdentity.clientId) (not (get .Values.serviceAccount.annotations "azure.workload.identity/client-id")) -}}
{{- $faults = append $faults "workloadIdentity.enabled needs workloadIdentity.clientId, the client id of the identity" -}}
{{- end -}}
{{- range $name, $_ := .Values.consumers -}}
{{- $group := include "qwatch.group" (list $root $name) | fromJson -}}
{{- $at := printf "consumers.%s" $name -}}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?$" $name) -}}
{{- $faults = append $faults (printf "%s: the name of a consumer group is 1 to 22 lower-case letters, digits and hyphens, since objects are called after it" $at) -}}
{{- end -}}
{{- if or (eq $name "shards") (hasPrefix "dashboard-" $name) -}}
{{- $faults = append $faults (printf "%s: the names shards and dashboard-… are taken by objects of the chart: choose another" $at) -}}
{{- end -}}
{{- with include "qwatch.plain" (toRawJson $group.queues) -}}
{{- $faults = append $faults (printf "%s.queues has a secret in plain text after %s, which would land in a ConfigMap: write ${NAME} there and set NAME with env or envFrom" $at .) -}}
{{- end -}}
{{- $seen := dict -}}
{{- $existing := (get $group "existingConfig" | default dict).name -}}
{{- if and (not $existing) (not $group.queues) -}}
{{- $faults = append $faults (printf "%s.queues is empty: name the queues that the group consumes, each with its account" $at) -}}
{{- end -}}
{{- range $i, $queue := (include "qwatch.groupQueues" (list $root $group) | fromJson).queues -}}
{{- if and (not $existing) (not (has $queue.account $accounts)) -}}
{{- $faults = append $faults (printf "%s.queues[%d].account %q is not one of config.accounts: %s" $at $i $queue.account (join ", " $accounts | default "there are none")) -}}
{{- end -}}
{{- $key := printf "%s/%s" $queue.account $queue.name -}}
{{- if hasKey $seen $key -}}
{{- $faults = append $faults (printf "%s.queues[%d] is %s again: name each queue of a group once" $at $i $key) -}}
{{- end -}}
{{- $_ := set $seen $key true -}}
{{- $effective := include "qwatch.effective" (list $root $queue) | fromJson -}}
{{- $drain := get (get $effective "consumer" | default dict) "drainTimeout" | default "30s" | toString -}}
{{- if regexMatch "^[-+]?[0-9.]*[1-9][0-9.]*(e[-+]?[0-9]+)?$" $drain -}}
{{- $faults = append $faults (printf "%s.queues[%d] (%s/%s) has the drainTimeout %s, which has no unit: write %ss, or one of ms, m, h and d" $at $i $queue.account $queue.name $drain $drain) -}}
{{- else if and (not $group.terminationGracePeriodSeconds) (not (regexMatch "^(0|([0-9]+(\\.[0-9]+)?(ms|s|m|h|d))+)$" $drain)) -}}
{{- $faults = append $faults (printf "%s.queues[%d] (%s/%s) has the drainTimeout %s, from which the chart cannot tell how long pods take to end: write it such as 1m30s, or set %s.terminationGracePeriodSeconds" $at $i $queue.account $queue.name $drain $at) -}}
{{- end -}}
{{- if and $group.scaling.enabled (eq $group.scaling.strategy "drain") $root.Values.watcher.enabled $own (not $group.scaling.objectiveFromMetadata) (not (get (get $effective "objective" | default dict) "timeInQueue")) -}}
{{- $faults = append $faults (printf "%s.scaling.strategy drain needs an objective, and %s/%s has none, so that its consumers would never start: set objective: {timeInQueue: …} of the queue (here, in config or in config.defaults), use inflight, or set scaling.objectiveFromMetadata where the queue's metadata has qwatch_objective" $at $queue.account $queue.name) -}}
{{- end -}}
{{- if and (not $existing) (not (get $queue "consumer")) -}}
{{- $faults = append $faults (printf "%s.queues[%d] (%s/%s) has no consumer, neither here nor in config: add consumer.handler" $at $i $queue.account $queue.name) -}}
{{- end -}}
{{- end -}}
{{- if and $existing (not $group.terminationGracePeriodSeconds) -}}
{{- $faults = append $faults (printf "%s.terminationGracePeriodSeconds is needed with existingConfig, since the chart cannot read its drainTimeout: set twice the longest drainTimeout and 15" $at) -}}
{{- end -}}
{{- $needs := include "qwatch.grace" (list $root $group) | int -}}
{{- if and (not $existing) $group.terminationGracePeriodSeconds (lt (int $group.terminationGracePeriodSeconds) $needs) -}}
{{- $faults = append $faults (printf "%s.terminationGracePeriodSeconds %d would kill pods while they drain: their drainTimeout takes %d seconds; raise it, leave it out, or shorten drainTimeout" $at (int $group.terminationGracePeriodSeconds) $needs) -}}
{{- end -}}
{{- $s := $group.scaling -}}
{{- if $s.enabled -}}
{{- if lt (int $s.maxReplicas) (int $s.minReplicas) -}}
{{- $faults = append $faults (printf "%s.scaling.maxReplicas %d is below minReplicas %d" $at (int $s.maxReplicas) (int $s.minReplicas)) -}}
{{- end -}}
{{- if and $own (ne $s.scaler "metrics-api") (get (get $server "grpcTLS" | default dict) "clientCAFile") (include "qwatch.grpcTLS" (list $root $s)) (not $s.authenticationRef) -}}
{{- $faults = append $faults (printf "%s.scaling.authenticationRef is needed: config.server.grpcTLS.clientCAFile demands a certificate of KEDA; name the TriggerAuthentication with caCert, tlsClientCert and tlsClientKey" $at) -}}
{{- end -}}
{{- if and $s.authMode (ne $s.scaler "metrics-api") -}}
{{- $faults = append $faults (printf "%s.scaling.authMode is how KEDA's metrics-api scaler signs in, and scaling.scaler is %s: leave it out; the scaler by gRPC shows its certificate with authenticationRef alone" $at $s.scaler) -}}
{{- end -}}
{{- if and $s.authMode (not (get $s.authenticationRef "name")) -}}
{{- $faults = append $faults (printf "%s.scaling.authMode %s needs scaling.authenticationRef.name: the TriggerAuthentication with %s" $at $s.authMode (include "qwatch.authParameters" $s.authMode)) -}}
{{- end -}}
{{- if gt (int (get $s.fallback "replicas" | default 0)) (int $s.maxReplicas) -}}
{{- $faults = append $faults (printf "%s.scaling.fallback.replicas %d is above maxReplicas %d, which KEDA refuses to exceed" $at (int $s.fallback.replicas) (int $s.maxReplicas)) -}}
{{- end -}}
{{- if and (gt (int $s.activationQueueLength) 0) (eq $s.strategy "drain") (eq $s.scaler "metrics-api") -}}
{{- $faults = append $faults (printf "%s.scaling.activationQueueLength %d counts messages, and KEDA's metrics-api scaler would hold drain's replicas against it: use scaler external, or leave it 0" $at (int $s.activationQueueLength)) -}}
{{- end -}}
{{- if hasKey (get $root.Values.consumers $name | default dict) "replicas" -}}
{{- $faults = append $faults (printf "%s.replicas is set beside scaling: KEDA owns the replicas; remove it, or set scaling.minReplicas" $at) -}}
{{- end -}}
{{- if and $root.Values.watcher.enabled (has $s.strategy (list "inflight" "drain")) (eq (include "qwatch.scheme" $root) "https") -}}
{{- $faults = append $faults (printf "%s.scaling.strategy %s asks the consumers what their handlers do, by plain HTTP, which config.server.webConfigFile turns off: use visible or all, or remove webConfigFile" $at $s.strategy) -}}
{{- end -}}
{{- if not (or $root.Values.watcher.enabled $s.address) -}}
{{- $faults = append $faults (printf "%s.scaling needs the watcher as KEDA's scaler: enable it, or set scaling.address" $at) -}}
{{- end -}}
{{- if not $group.queues -}}
{{- $faults = append $faults (printf "%s.scaling needs %s.queues, to know what to scale on" $at $at) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $faults -}}
{{- fail (printf "\n\nThese values cannot work:\n- %s\n" (join "\n- " $faults)) -}}
{{- end -}}
{{- end -}}
