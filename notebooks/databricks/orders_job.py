# Databricks notebook source
# MAGIC %md
# MAGIC # Orders, from the queue into a table
# MAGIC
# MAGIC Reads what is in the queue, appends it to a table, deletes it from the queue, and ends. Run it as a job on a
# MAGIC schedule: `databricks.yml` beside this notebook has one.
# MAGIC
# MAGIC It needs a runtime with Spark 4 (17.3 LTS or newer; 19 or newer for backlog and counters) and a volume.

# COMMAND ----------

# MAGIC %pip install /Volumes/main/shop/libraries/spark_azqueue-0.1.0-py3-none-any.whl "azure-storage-blob>=12.15"

# COMMAND ----------

# The job sets these; in a notebook they are fields above.
dbutils.widgets.text("account", "https://shopqueues.queue.core.windows.net", "Queue endpoint")
dbutils.widgets.text("queue", "orders", "Queue")
dbutils.widgets.text("table", "main.shop.orders", "Table")
dbutils.widgets.text("volume", "/Volumes/main/shop/queues", "Folder for the checkpoint")
dbutils.widgets.text("log", "", "Write-ahead log, such as blob:logs/orders (empty: none)")
dbutils.widgets.text("credential", "", "Service credential (empty: the secret scope)")
dbutils.widgets.text("scope", "shop", "Secret scope")

account = dbutils.widgets.get("account")
queue = dbutils.widgets.get("queue")
table = dbutils.widgets.get("table")
volume = dbutils.widgets.get("volume")
log = dbutils.widgets.get("log")
credential = dbutils.widgets.get("credential")
scope = dbutils.widgets.get("scope")

# COMMAND ----------

# MAGIC %md
# MAGIC ## The account
# MAGIC
# MAGIC With a service credential no secret is involved. Without one, the secret `queues` of the scope holds a connection
# MAGIC string.

# COMMAND ----------

if credential:
    azure = {"accountUrl": account, "credential": "databricks", "serviceCredential": credential}
else:
    azure = {"secret.connectionString": dbutils.secrets.get(scope=scope, key="queues")}

# COMMAND ----------

# MAGIC %md
# MAGIC ## The stream
# MAGIC
# MAGIC `maxDequeueCount` sets messages aside that make their batch fail again and again; the job starts the notebook again
# MAGIC after a failure, which is what finding them takes. The body is kept: what is no such JSON has NULLs beside it.

# COMMAND ----------

import spark_azqueue

# Not needed if the session has not looked for any format yet; it does no harm.
spark.dataSource.register(spark_azqueue.AzQueueDataSource)

messages = (
    spark.readStream.format("azqueue")
    .options(**azure)
    .option("queue", queue)
    .option("maxDequeueCount", "5")
)
if log:
    messages = messages.option("writeAheadLog", log)
orders = messages.load().selectExpr(
    "message_id",
    "insertion_time",
    "body",
    "from_json(body, 'order_id BIGINT, quantity BIGINT') AS o",
)
orders = orders.select("message_id", "insertion_time", "body", "o.*")

# COMMAND ----------

query = (
    orders.writeStream.queryName(f"read-{queue}")
    .option("checkpointLocation", f"{volume}/{queue}/checkpoint")
    .trigger(availableNow=True)
    .toTable(table)
)
query.awaitTermination()

# COMMAND ----------

batches = [progress for progress in query.recentProgress if progress["numInputRows"]]
read = sum(progress["numInputRows"] for progress in batches)
print(f"{read} messages in {len(batches)} batches; {table} has {spark.table(table).count()} rows")
dbutils.notebook.exit(str(read))
