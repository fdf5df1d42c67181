{{/* A queue of the configuration, or an empty dict: (list root account name). */}}
{{- define "qwatch.queue" -}}
{{- $root := index . 0 -}}{{- $account := index . 1 -}}{{- $name := index . 2 -}}
{{- $found := dict -}}
{{- range $root.Values.config.accounts -}}
{{- if eq .name $account -}}
{{- range .queues -}}{{- if eq .name $name -}}{{- $found = . -}}{{- end -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{/* The queues of a group, each with what the configuration says of it, and its account: (list root group). */}}
{{- define "qwatch.groupQueues" -}}
{{- $root := index . 0 -}}{{- $out := list -}}
{{- range (index . 1).queues -}}
{{- $base := include "qwatch.queue" (list $root .account .name) | fromJson -}}
{{- $out = append $out (mergeOverwrite (deepCopy $base) (deepCopy .)) -}}
{{- end -}}
{{- dict "queues" $out | toJson -}}
{{- end -}}

{{/* A queue with the config.defaults that match it beneath, as qwatch reads them: (list root queue). */}}
{{- define "qwatch.effective" -}}
{{- $queue := index . 1 -}}{{- $out := dict -}}
{{- range get (index . 0).Values.config "defaults" | default list -}}
{{- $glob := toString .match -}}
{{- $name := ternary (printf "%s/%s" $queue.account $queue.name) $queue.name (contains "/" $glob) -}}
{{- $form := regexQuoteMeta $glob | replace "\\?" "[^/]" | replace "\\*" "[^/]*" | replace "\\[" "[" | replace "\\]" "]" | replace "\\^" "^" -}}
{{- if regexMatch (printf "^(?:%s)$" $form) $name -}}{{- $out = mergeOverwrite $out (deepCopy (omit . "match")) -}}{{- end -}}
{{- end -}}
{{- mergeOverwrite $out (deepCopy $queue) | toJson -}}
{{- end -}}

{{/* What both shapes have in common. */}}
{{- define "qwatch.commonConfig" -}}
{{- $c := deepCopy .Values.config -}}
{{- $server := deepCopy (get $c "server" | default dict) -}}
{{- $_ := set $server "listen" ":9780" -}}
{{- $_ := set $server "probes" ":9781" -}}
{{- $_ := set $server "grpc" ":9782" -}}
{{- $_ := set $c "server" $server -}}
{{- toJson $c -}}
{{- end -}}

{{/* The watcher's qwatch.yaml: every queue, and no consumer. */}}
{{- define "qwatch.watcherConfig" -}}
{{- $root := . -}}
{{- $c := include "qwatch.commonConfig" . | fromJson -}}
{{- $peers := list -}}
{{- $more := dict -}}
{{- range $name, $_ := .Values.consumers -}}
{{- $group := include "qwatch.group" (list $root $name) | fromJson -}}
{{- $peers = append $peers (printf "%s.%s.svc:9780" (include "qwatch.groupName" (list $root $name)) $root.Release.Namespace) -}}
{{- range (include "qwatch.groupQueues" (list $root $group) | fromJson).queues -}}
{{- $_ := set $more (printf "%s/%s" .account .name) . -}}
{{- end -}}
{{- end -}}
{{- $accounts := list -}}
{{- range $c.accounts -}}
{{- $account := . -}}
{{- $queues := list -}}
{{- $seen := dict -}}
{{- range $account.queues -}}
{{- $key := printf "%s/%s" $account.name .name -}}
{{- $_ := set $seen $key true -}}
{{- $queues = append $queues (include "qwatch.watched" (list $root (get $more $key | default (merge (dict "account" $account.name) .))) | fromJson) -}}
{{- end -}}
{{- range $key, $queue := $more -}}
{{- if and (eq $queue.account $account.name) (not (hasKey $seen $key)) -}}
{{- $queues = append $queues (include "qwatch.watched" (list $root $queue) | fromJson) -}}
{{- end -}}
{{- end -}}
{{- $account = omit $account "queues" -}}
{{- if $queues -}}{{- $_ := set $account "queues" $queues -}}{{- end -}}
{{- $accounts = append $accounts $account -}}
{{- end -}}
{{- $_ := set $c "accounts" $accounts -}}
{{- $watch := get $c "watch" | default dict -}}
{{- $_ := set $watch "mode" .Values.watcher.mode -}}
{{- if eq .Values.watcher.mode "leader" -}}
{{- $leader := dict "lease" (include "qwatch.fullname" .) "namespace" .Release.Namespace -}}
{{- if eq (include "qwatch.scheme" .) "https" -}}{{- $_ := set $leader "address" "https://${POD_IP}:9780" -}}{{- end -}}
{{- $_ := set $watch "leader" $leader -}}
{{- else if eq .Values.watcher.mode "shard" -}}
{{- $full := include "qwatch.fullname" . -}}
{{- $_ := set $watch "shard" (dict "count" (int .Values.watcher.replicas) "peers" (list (printf "%s://%s-{index}.%s-shards.%s.svc:9780" (include "qwatch.scheme" .) $full $full .Release.Namespace))) -}}
{{- end -}}
{{- $_ := set $c "watch" $watch -}}
{{- $scaling := get $c "scaling" | default dict -}}
{{- if and $peers (not (hasKey $scaling "peers")) (eq (include "qwatch.scheme" .) "http") -}}{{- $_ := set $scaling "peers" (join "," $peers) -}}{{- end -}}
{{- if $scaling -}}{{- $_ := set $c "scaling" $scaling -}}{{- end -}}
{{- toYaml $c -}}
{{- end -}}

{{/* A queue as the watcher sees it; what one replica of its consumers handles at once is kept for the scaler: (list root queue). */}}
{{- define "qwatch.watched" -}}
{{- $given := index . 1 -}}
{{- $queue := omit $given "consumer" "account" -}}
{{- if get $given "consumer" -}}
{{- $effective := include "qwatch.effective" . | fromJson -}}
{{- $scaling := get $effective "scaling" | default dict -}}
{{- if and $effective.consumer.concurrency (not (hasKey $scaling "concurrency")) -}}
{{- $_ := set $queue "scaling" (mergeOverwrite (deepCopy (get $queue "scaling" | default dict)) (dict "concurrency" $effective.consumer.concurrency)) -}}
{{- end -}}
{{- end -}}
{{- toJson $queue -}}
{{- end -}}

{{- define "qwatch.scheme" -}}
{{- $server := get .Values.config "server" | default dict -}}
{{- ternary "https" "http" (hasKey $server "webConfigFile") -}}
{{- end -}}

{{/* A group's qwatch.yaml: its queues alone: (list root group). */}}
{{- define "qwatch.groupConfig" -}}
{{- $root := index . 0 -}}
{{- $c := omit (include "qwatch.commonConfig" $root | fromJson) "scaling" -}}
{{- $_ := set $c.server "grpc" "off" -}}
{{- $watch := omit (get $c "watch" | default dict) "mode" "leader" "shard" "peers" "canary" -}}
{{- $c = omit $c "watch" -}}
{{- if $watch -}}{{- $_ := set $c "watch" $watch -}}{{- end -}}
{{- $queues := (include "qwatch.groupQueues" (list $root (index . 1)) | fromJson).queues -}}
{{- $accounts := list -}}
{{- range $c.accounts -}}
{{- $account := omit . "queues" "discovery" -}}
{{- $own := list -}}
{{- range $queues -}}{{- if eq .account $account.name -}}{{- $own = append $own (omit . "account") -}}{{- end -}}{{- end -}}
{{- if $own -}}
{{- $_ := set $account "queues" $own -}}
{{- $accounts = append $accounts $account -}}
{{- end -}}
{{- end -}}
{{- $_ := set $c "accounts" $accounts -}}
{{- toYaml $c -}}
{{- end -}}

{{/* How long a group may take to end: (list root group). qwatch drains, cancels handlers, and waits as long again. */}}
{{- define "qwatch.grace" -}}
{{- $root := index . 0 -}}{{- $group := index . 1 -}}
{{- $longest := 0 -}}
{{- range (include "qwatch.groupQueues" (list $root $group) | fromJson).queues -}}
{{- $consumer := get (include "qwatch.effective" (list $root .) | fromJson) "consumer" | default dict -}}
{{- $longest = max $longest (include "qwatch.seconds" (ternary $consumer.drainTimeout "30s" (hasKey $consumer "drainTimeout"))) -}}
{{- end -}}
{{- add (mul 2 $longest) 15 -}}
{{- end -}}
